"""Builds old releases of engines with known crash bugs, by which the crash explorer is judged.

    python harness/checks/recall FOLDER [PAIR]... [--out FILE [--states N]]

makes FOLDER a folder of shims, with two stores for each pair of recall.toml: NAME-bug and NAME-fix.
With --out, it explores them as root, and writes a row for each pair.
"""

from recalled import main

if __name__ == "__main__":
    main()
