"""Runs kvbench as `python -m kvbench.cli`."""

from kvbench.cli import main

if __name__ == "__main__":
    main()
