"""All code that shapes a result: with the shims, what runs while a store is measured."""
