"""Published experiments run again: what was printed beside what was measured, a module a source."""
