"""The fixtures of tests that run notebooks."""

from executed import interactive, shell

__all__ = ["interactive", "shell"]
