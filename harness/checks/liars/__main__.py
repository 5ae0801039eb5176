"""Builds the stores with planted bugs, by which the crash explorer is judged.

    python harness/checks/liars FOLDER [BUG]...

makes FOLDER a folder of shims. With KVBENCH_SHIMS=FOLDER, kvbench knows these stores.
"""

from planted import main

if __name__ == "__main__":
    main()
