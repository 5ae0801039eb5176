"""In the short form of torture, no cell is lost, no fault is missed and nothing crashes."""

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from support import ROOT, SHIMS

TORTURE = ROOT / "harness/checks/torture"
COUNTS = ["cells_lost", "answers_missed", "crashes"]
PARTS = ["kills", "disks", "lies", "stateful", "mutations", "sanitizers"]


@pytest.mark.check
@pytest.mark.parametrize("part", PARTS)
def test_nothing_gets_through(part: str, tmp_path: Path) -> None:
    # A job in the background ignores Ctrl-C. The sweeps that it starts must not ignore it.
    background = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    command = [*background, sys.executable, str(TORTURE), part, "--short", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    table = pd.read_csv(tmp_path / "torture.csv")
    assert set(zip(table.form, table.seed, strict=True)) == {("short", 1)}
    assert (table[COUNTS] == 0).all(axis=None)
    tried = table.faults + table.inputs > 0
    assert (tried | (table.what == "not tried")).all()


@pytest.mark.check
def test_a_race_in_a_shim_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The null store, whose gets add to a counter that its threads share, or end the program."""
    monkeypatch.syspath_prepend(str(TORTURE))
    builds, sanitizers = map(importlib.import_module, ("builds", "sanitizers"))
    shims = tmp_path / "harness" / "shims"
    (shims / "stores").mkdir(parents=True)
    for name in ("kv.h", "shim.h"):
        shutil.copy(SHIMS / name, shims)
    honest = (SHIMS / "stores" / "null.c").read_text()
    racing = honest.replace("static int get(", "static int gets;\nstatic int get(")
    racing = racing.replace("    *size = 0;\n", "    *size = 0;\n    gets++;\n")
    sources = [TORTURE.parent / "sanitize" / "threads.c"]
    sources += [SHIMS / f"{name}.c" for name in sanitizers.CORE]
    tested = builds.program("threads", sources, "-fsanitize=thread")
    fatal = honest.replace("    *size = 0;\n", "    *size = 0;\n    raise(SIGFPE);\n")
    fatal = "#include <signal.h>\n" + fatal
    for text, said in ((honest, ""), (racing, "race: "), (fatal, "ThreadSanitizer: FPE")):
        source = shims / "stores" / "null.c"
        source.write_text(text)
        shim = builds.program("racing.so", [source], "-fsanitize=thread", "-shared", "-fPIC")
        done = builds.run([tested, shim, tmp_path, "2"], {"TSAN_OPTIONS": sanitizers.TSAN})
        assert done.returncode == 0, done.stderr
        found = sanitizers.races(done.stderr)
        assert [said in line for line in found] == [True] * len(found), done.stderr
        assert bool(found) == bool(said)
