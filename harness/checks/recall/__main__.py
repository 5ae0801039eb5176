"""Builds old releases of engines with known crash bugs, by which the crash explorer is judged.

    python harness/checks/recall FOLDER [PAIR]...

makes FOLDER a folder of shims, with two stores for each pair of recall.toml: NAME-bug and NAME-fix.
"""

from recalled import main

if __name__ == "__main__":
    main()
