"""What shapes a result: with the shims, all code that runs while a store is measured."""
