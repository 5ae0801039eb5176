"""Seeded mutations of every input that the program reads.

The program must refuse bad input with exit status 2 and one line on the standard error. The line
begins with "kvbench: " and names what is wrong, and nothing is written. Valid input must work. No
input may be unpickled or evaluated, or take longer than LIMIT. We keep each input that breaks
these rules.
"""

import ast
import contextlib
import copy
import dataclasses
import datetime
import gc
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from builds import ROOT
from IPython.core.interactiveshell import InteractiveShell
from kvbench import cli
from kvbench.cell.histogram import quantile
from kvbench.common.messages import BadInput, one_line
from kvbench.results.folder import MARK
from kvbench.results.tables import TABLES, read_tables
from kvbench.stores import catalogue
from kvbench.sweep.sweep import Sweep
from papermill.translators import PythonTranslator
from sweeps import toml
from table import Form, Row

GRIDS = sorted((ROOT / "harness/grids").glob("*.toml"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ANALYSES = [path for path in NOTEBOOKS if path.stem in ("best-option", "latency", "space")]
SWEEP = ROOT / "notebooks/sweep.ipynb"
LIMIT = 20.0  # seconds
MEMORY = 8 << 30  # bytes of address space that a child may use
REFUSED = 2
ENDED = (0, cli.SOME_FAILED)
WRONG_ANSWER = 77  # exit status of a child that got a wrong answer
CANARY = '__import__("os").abort()'  # evaluating it kills the process
PICKLE = b"cos\nabort\n(tR."  # so does unpickling this
FORK = get_context("fork")
Random = random.Random


class Raw(str):
    """Text that is written into a file unchanged."""


NASTY: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 7, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    0.0, 0.5, -0.5, 1e308, float("nan"), float("inf"), float("-inf"),
    "", " ", ",", "=", "a, b", "default", "none", "flat", "rounds", "ok", "1 KiB", "-1 KiB",
    "0 B", "1-", "10-1 KiB", "1.5 KiB", "1 KB", f"{2**64} B", "9" * 30 + " GiB", "9" * 5000,
    "9" * 5000 + " B", "\uff11\uff12 KiB", "²", "x" * 100_000, "\0", "a\nb", "a\r\nb",
    "\x1b[31m", "\x85", "\u2028", "\u202e", "é", "😀", CANARY, "../../etc/passwd", "/",
    "fillseq batch=" + "9" * 5000,
    "readrandom ops=0", "readseq, " * 5000 + "readseq", "compact, " * 50 + "compact",
    datetime.date(2024, 2, 29), datetime.time(1, 2), datetime.datetime(1, 1, 1),
    [], {}, [[]], [["1 KiB"], [[1]]], [None], [1, "a", 1.5], ["flat"] * 2, {"": 1},
    {"a": {"a": {}}},
    Raw("9" * 50), Raw("9" * 5000), Raw("0x" + "f" * 5000), Raw("1e999"), Raw(r'"\ud800"'),
    Raw("[" * 300 + "]" * 300), Raw("[" * 20_000 + "]" * 20_000),
    Raw('{"a": ' * 50 + "1" + "}" * 50),
)  # fmt: skip
BYTES = (b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\n", b'"', b"[", b"}", b"#", b"=", PICKLE)


# Writing and altering values


def written(value: Any, is_toml: bool = False) -> str:
    """The value as JSON or TOML. A value that TOML cannot express makes the file invalid."""
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        equals = " = " if is_toml else ": "
        pairs = (f"{written(k, is_toml)}{equals}{written(v, is_toml)}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(written(inner, is_toml) for inner in value) + "]"
    if is_toml and isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if is_toml and isinstance(value, float):
        return repr(value)
    return json.dumps(value, default=str, ensure_ascii=not is_toml)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each table or list inside the value with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value) if type(value) is list else 0)
    for key in keys:
        yield value, key
        yield from places(value[key])


def nasty(dice: Random) -> Any:
    """A copy of a nasty value, because later alterations may change it in place."""
    return copy.deepcopy(dice.choice(NASTY))


def altered(value: Any, dice: Random) -> Any:
    """A copy with one to four keys removed, duplicated, renamed or set to another value."""
    value = json.loads(json.dumps(value, default=str))
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        found = list(places(value))
        if not found:
            return nasty(dice)
        holder, key = dice.choice(found)
        match dice.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                names = [key + "s", key.upper(), "", "a\nb", "é", "x" * 300, "parts"]
                holder[dice.choice(names)] = holder.pop(key)
            case 2:
                holder[key] = [holder[key]] * dice.choice((1, 2))
            case 3:
                other, place = dice.choice(found)
                with contextlib.suppress(KeyError, IndexError):  # it was just removed
                    holder[key] = copy.deepcopy(other[place])
            case _:
                # A grid's keys hold lists, so values inside a list are altered as well.
                inside = type(holder[key]) is list and dice.random() < 0.7
                holder[key] = [nasty(dice)] if inside else nasty(dice)
    return value


def spoilt(data: bytes, dice: Random) -> bytes:
    """A copy with bits flipped, bytes removed, inserted or duplicated, or the end cut off."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(6):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = dice.choice(BYTES)
            case 2:
                del changed[at : at + dice.randrange(64)]
            case 3:
                changed[at:at] = changed[at : at + dice.randrange(64)]
            case _ if at < len(changed):
                changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed)


def doubled(data: bytes, dice: Random) -> bytes:
    """A copy of a text file with one line removed, duplicated or moved."""
    lines = data.splitlines(keepends=True)
    at, to = dice.randrange(len(lines)), dice.randrange(len(lines))
    line, how = lines[at], dice.choice(("removed", "doubled", "moved"))
    if how != "doubled":
        del lines[at]
    if how != "removed":
        lines.insert(to, line)
    return b"".join(lines)


# Trying an input


@dataclasses.dataclass(frozen=True)
class Case:
    """`call` runs in a child of this process, on the input in `folder`. It must not change the
    folder unless it `writes` and the input is valid. A refusal must mention one of `names`."""

    command: str
    call: Callable[[], None]
    folder: Path
    names: Sequence[str]
    writes: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int  # negative: the number of the signal
    output: str
    errors: str


def attempt(case: Case, log: Path) -> Outcome:
    """Runs the call in a fork, where everything is imported already; kills it after LIMIT."""
    sys.stdout.flush()
    child = FORK.Process(target=_child, args=(case, log))
    child.start()
    child.join(LIMIT)
    late = f"no end within {LIMIT:g} s\n" if child.is_alive() else ""
    child.kill()
    child.join()
    output, errors = ((log / name).read_text(errors="replace") for name in ("output", "errors"))
    return Outcome(child.exitcode or 0, output, errors + late)


def _child(case: Case, log: Path) -> None:
    for number, name in ((1, "output"), (2, "errors")):
        os.dup2(os.open(log / name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(_guard)
    try:
        case.call()
    except BadInput as error:  # reported as the command line does
        print(f"kvbench: {error}", file=sys.stderr)
        sys.exit(REFUSED)


def _guard(event: str, _: tuple[Any, ...]) -> None:
    """Ends the process if it unpickles anything. Evaluated input runs into CANARY instead."""
    if event == "pickle.find_class":
        os.write(2, b"Traceback: something is unpickled\n")
        os._exit(1)


def listing(folder: Path) -> dict[str, str]:
    """The mode, link target and digest of each path below the folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = f"{path.lstat().st_mode:o}"
        link = os.readlink(path) if path.is_symlink() else ""
        data = path.read_bytes() if not link and path.is_file() else b""
        found[str(path.relative_to(folder))] = f"{mode} {link} {hashlib.sha256(data).hexdigest()}"
    return found


def violation(  # noqa: PLR0911 - a return for each rule
    case: Case, outcome: Outcome, before: dict[str, str], after: dict[str, str]
) -> str:
    """The rule that the outcome breaks, in words; empty if it breaks none."""
    lines = outcome.errors.splitlines()
    if outcome.status == WRONG_ANSWER:
        return "wrong answer"
    if "Traceback" in outcome.errors or outcome.status not in (REFUSED, *ENDED):
        return f"crashed: {outcome.status} {lines[-1][:200] if lines else ''}"
    if any(name.endswith(".tmp") for name in after.keys() - before.keys()):
        return "left a temporary file"
    if outcome.status in ENDED:
        return "" if case.writes or before == after else "wrote something"
    if before != after:
        return "refused, but wrote something"
    if len(lines) != 1 or not lines[0].startswith("kvbench: "):
        return f"not one line: {lines[:3]}"
    named = any(name in lines[0] for name in case.names)
    return "" if named else f"names neither of {', '.join(case.names)}"


class Tally:
    """Counts the inputs of one kind, and keeps those that broke a rule."""

    def __init__(self, what: str, place: Path) -> None:
        self.what, self.place = what, place
        self.refused = self.valid = self.crashes = self.missed = 0

    def try_(self, case: Case) -> None:
        log = self.place / "log"
        log.mkdir(exist_ok=True)
        before = listing(case.folder)
        outcome = attempt(case, log)
        self.count(case, outcome, violation(case, outcome, before, listing(case.folder)))

    def count(self, case: Case, outcome: Outcome, wrong: str) -> None:
        if not wrong:
            self.refused += outcome.status not in ENDED
            self.valid += outcome.status in ENDED
            shutil.rmtree(case.folder)
            return
        self.missed += outcome.status == WRONG_ANSWER
        self.crashes += outcome.status != WRONG_ANSWER
        number = self.crashes + self.missed
        kept = self.place / "violations" / f"{self.what.replace(' ', '-')}-{number}"
        kept.mkdir(parents=True)
        case.folder.rename(kept / "input")
        said = f"{wrong}\nstatus {outcome.status}\n{outcome.output[-5000:]}\n{outcome.errors}"
        (kept / "output.txt").write_text(said, errors="replace")
        (kept / "command.txt").write_text(case.command + "\n", errors="replace")

    def row(self) -> Row:
        return Row(
            "mutation",
            self.what,
            inputs=self.refused + self.valid + self.crashes + self.missed,
            answers_missed=self.missed,
            crashes=self.crashes,
            note=f"{self.refused} refused, {self.valid} still valid",
        )


def fresh(place: Path) -> Path:
    folder = place / "case"
    folder.mkdir(parents=True)
    return folder


def command(folder: Path, names: Sequence[str], *arguments: Any, writes: bool = False) -> Case:
    """A case of the command line, run in the folder of its input."""
    texts = [str(argument) for argument in arguments]

    def call() -> None:
        os.chdir(folder)
        try:
            cli.main(texts)
        except SystemExit as end:
            if writes and not end.code:
                read_tables(Path(texts[1]))  # the collected tables must be readable
            raise

    return Case(" ".join(["kvbench", *map(repr, texts)]), call, folder, names, writes)


# Grids, options, results folders


def grids(dice: Random, place: Path, _: Path) -> Iterator[Case]:
    """The grids of the experiments, altered by key, by line or by byte."""
    while True:
        source = dice.choice(GRIDS)
        data, values = source.read_bytes(), tomllib.loads(source.read_text())
        how = dice.random()
        if how < 0.6:
            new = altered(values, dice)
            keys = new.items() if isinstance(new, dict) else ()
            lines = (f"{written(key, True)} = {written(value, True)}\n" for key, value in keys)
            data = "".join(lines).encode(errors="surrogatepass")
        else:
            data = doubled(data, dice) if how < 0.75 else spoilt(data, dice)
        folder = fresh(place)
        (folder / "grid.toml").write_bytes(data)
        scales = values.get("scale", {})
        scale = ["--scale", dice.choice([*scales, "0.001"])] if scales else []
        given = ["sweep", "grid.toml", "--out", "new", "--dry-run", *scale]
        yield command(folder, ["grid.toml", "options: "], *given)


TEXTS = [
    *(
        text
        for text in (value if isinstance(value, str) else str(value) for value in NASTY)
        if "\0" not in text and len(text) < 120_000  # the kernel accepts no other arguments
    ),
    *["headline", "tiny", "reference", "1e-300", "1e9", "1_0", "+2", "0x10", "64MiB", "-1", "1e10"],
]


def options(dice: Random, place: Path, _: Path) -> Iterator[Case]:
    """Values of a sweep's options and paths, for grids with and without scales."""
    while True:
        folder = fresh(place)
        source = dice.choice(GRIDS)
        shutil.copy(source, folder / "grid.toml")
        value = dice.choice(TEXTS)
        if dice.random() < 0.2:
            value = "".join(dice.choices("0123456789.e-+_ KMGiBnaf", k=dice.randrange(1, 12)))
        name = dice.choice(["--scale", "--memory-max", "--time-limit", "--out", "GRID"])
        given = {"GRID": "grid.toml", "--out": "new", "--scale": "tiny"} | {name: value}
        if name != "--scale" and "[scale" not in source.read_text():
            del given["--scale"]
        grid = given.pop("GRID")
        names = ["grid.toml", name, name.strip("-").replace("-", "_"), one_line(value)[:50] or "."]
        pairs = [f"{key}={text}" for key, text in given.items()]
        # A path may begin with a dash, so it comes last.
        yield command(folder, names, "sweep", *pairs, "--dry-run", "--", grid)


def small_results(place: Path) -> Path:
    """A real results folder with its tables, of measured and of skipped cells."""
    grid, out = place / "small.toml", place / "small"
    levels = {"records": [50], "compression": ["default", "snappy"], "record_sizes": ["100 B"]}
    grid.write_text(toml({"stores": ["flat", "lmdb"], "trials": 2, **levels}))
    for arguments in (["sweep", grid, "--out", out], ["collect", out]):
        program = [sys.executable, "-m", "kvbench.cli", *map(str, arguments)]
        subprocess.run(program, check=True, capture_output=True)
    return out


def replace(path: Path, dice: Random) -> None:
    """Replaces a path by a broken link, a pipe, bytes, an empty file or folder, or nothing."""
    whole = path.with_name(f"{path.name}.was")
    path.rename(whole)
    ways: list[Callable[[], object]] = [
        lambda: None,
        path.mkdir,
        path.touch,
        lambda: path.symlink_to("nowhere"),
        lambda: path.symlink_to(path.name),
        lambda: os.mkfifo(path),
        lambda: path.write_bytes(dice.randbytes(dice.randrange(2000))),
        lambda: path.write_bytes(PICKLE),
    ]
    dice.choice(ways)()
    if whole.is_dir():
        shutil.rmtree(whole)
    else:
        whole.unlink()


def add(folder: Path, path: Path, dice: Random) -> None:
    """Adds a file or folder that does not belong, or puts other content in place of a file."""
    table = folder / f"{dice.choice(sorted(TABLES))}.parquet"

    def folder_for_table() -> None:
        table.unlink()
        table.mkdir()

    other = dice.choice(sorted(folder.rglob("*.json")))
    copied = path.with_name(dice.choice(["a.json", "\udcff.json", "é\n.json"]))
    ways: list[Callable[[], object]] = [
        lambda: shutil.copy(path, copied),
        folder_for_table,
        lambda: (path.parent / ".json").write_text(""),
        (folder / dice.choice(["cells.csv", "results.xlsx", "stores"])).mkdir,
        lambda: path.write_bytes(other.read_bytes()),
        lambda: (folder / "cells/half.json.1.tmp").write_text("{"),
    ]
    dice.choice(ways)()


def results(dice: Random, place: Path, whole: Path) -> Iterator[Case]:
    while True:
        folder = fresh(place)
        out = folder / "out"
        shutil.copytree(whole, out)
        (folder / "grid.toml").write_text('stores = ["flat"]\n')
        kind = dice.choice([MARK, "grids/*.json", "machines/*.json", *["cells/*.json"] * 3])
        path = dice.choice(sorted(out.glob(kind)))
        how = dice.random()
        if how < 0.55:
            path.write_text(written(altered(json.loads(path.read_bytes()), dice)))
        elif how < 0.75:
            path.write_bytes(dice.choice((doubled, spoilt))(path.read_bytes(), dice))
        elif how < 0.9:
            replace(dice.choice([path, path, path.parent]) if path.parent != out else path, dice)
        else:
            add(out, path, dice)
        which = dice.choice(("status", "status", "collect", "collect", "collect", "sweep"))
        if which == "sweep":
            yield command(folder, ["out"], "sweep", "grid.toml", "--out", "out", "--dry-run")
        elif which == "status":
            yield command(folder, ["out"], "status", "out")
        else:
            more = dice.choice(((), (), ("--csv", "--xlsx")))
            yield command(folder, ["out"], "collect", "out", *more, writes=True)


# Parquet files, and the notebooks that read them


def other_table(table: pa.Table, dice: Random) -> pa.Table:
    """A copy of the table with other columns, types, rows, values or metadata."""
    at = dice.randrange(table.num_columns)
    field, column, rows = table.schema.field(at), table.column(at), len(table)

    def cast() -> pa.Table:
        kind = dice.choice([pa.string(), pa.binary(), pa.float32(), pa.int32(), pa.large_string()])
        with contextlib.suppress(pa.ArrowException):
            return table.set_column(at, field.with_type(kind), column.cast(kind))
        return table.set_column(at, field.name, pa.nulls(rows))

    def metadata() -> pa.Table:
        own = {
            b"kvbench_schema": dice.choice([b"", b"5.0", b"999", b"\xff\xfe", PICKLE, b"5\n"]),
            b"pandas": dice.choice([b"", b"{}", b"[]", PICKLE, CANARY.encode(), _of_pandas()]),
            b"ARROW:schema": dice.choice([b"", b"AAAA", b"\xff", PICKLE]),
        }
        keys = dice.sample(sorted(own), dice.randrange(4))
        chosen = {key: own[key] for key in keys}
        return table.replace_schema_metadata((table.schema.metadata or {}) | chosen)

    def extension() -> pa.Table:
        names = [b"arrow.py_extension_type", b"arrow.uuid", CANARY.encode()]
        said = {b"ARROW:extension:name": dice.choice(names), b"ARROW:extension:metadata": PICKLE}
        return table.set_column(at, field.with_metadata(said), column)

    def values() -> pa.Table:
        found = column.to_pylist()
        texts = ["", "x", "\0", "é" * 1000, CANARY, "1 KiB", "10 B", "ok", "python", "cold"]
        bad = [None, None, *(texts if field.type == pa.string() else [-1, 0, 1, 2**31 - 1])]
        if pa.types.is_floating(field.type):
            bad += [float("nan"), float("inf"), -1e308, 1e308]
        if pa.types.is_list(field.type):
            bad = [None, [], [-1], [0], [None], [1] * 1000, [2**31 - 1, 2**31 - 1]]
        for row in dice.sample(range(rows), min(rows, dice.choice((1, 1, 3, 1000)))):
            found[row] = dice.choice(bad)
        return table.set_column(at, field, pa.array(found, field.type))

    ways: list[Callable[[], pa.Table]] = [
        lambda: table.remove_column(at),
        lambda: table.rename_columns([*table.column_names[:-1], dice.choice(["", "x", "cell"])]),
        lambda: table.append_column(dice.choice(["extra", "cell"]), column),
        lambda: pa.concat_tables([table, table.slice(0, dice.randrange(rows + 1))]),
        lambda: table.slice(dice.randrange(rows + 1)),
        lambda: table.take(pa.array(dice.sample(range(rows), rows))),
        *(cast, metadata, extension, *[values] * 4),
    ]
    return dice.choice(ways)()


def _of_pandas() -> bytes:
    """Metadata as pandas writes them, with code in place of names."""
    column = {
        "name": CANARY, "field_name": "cell", "pandas_type": "unicode", "numpy_type": CANARY,
        "metadata": {"encoding": CANARY},
    }  # fmt: skip
    said = {"index_columns": [CANARY], "column_indexes": [column], "columns": [column]}
    return json.dumps(said).encode()


def code_cells(notebook: Path) -> list[str]:
    """The code cells before the first figure: parameters, their check and the computations."""
    cells = json.loads(notebook.read_bytes())["cells"]
    code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return list(itertools.takewhile(lambda source: not source.startswith("#| label"), code))


def import_all(notebooks: Sequence[Path]) -> None:
    """Imports what the notebooks import, so that the children need not."""
    for notebook in notebooks:
        for statement in ast.parse("\n".join(code_cells(notebook)[:2])).body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                exec(compile(ast.Module([statement], []), str(notebook), "exec"))


def run_cells(sources: Sequence[str], place: Path) -> InteractiveShell:
    """Runs code cells as a kernel does, and returns the shell."""
    os.chdir(ROOT / "notebooks")
    os.environ["IPYTHONDIR"] = str(place / "ipython")
    shell = InteractiveShell.instance()
    for source in sources:
        shell.run_cell(source, store_history=True).raise_error()  # type: ignore[no-untyped-call]
    return shell


def parquet(dice: Random, place: Path, whole: Path) -> Iterator[Case]:
    """Damaged or altered tables. Damage that is accepted and changes a value is a wrong answer."""
    tables = {name: pq.read_table(whole / f"{name}.parquet") for name in TABLES}
    right = read_tables(whole)
    while True:
        folder = fresh(place)
        name = dice.choice(["cells", "cells", "operations", "operations", "machines"])
        for table in TABLES:
            shutil.copy(whole / f"{table}.parquet", folder)
        path, how = folder / f"{name}.parquet", dice.random()
        if how < 0.45:
            path.write_bytes(spoilt(path.read_bytes(), dice))
        elif how < 0.95:
            table = other_table(tables[name], dice)
            pq.write_table(table, path, compression=dice.choice(["zstd", "none", "snappy"]))
        elif how < 0.97:
            shutil.copy(folder / f"{dice.choice(sorted(TABLES))}.parquet", folder / "other")
            (folder / "other").rename(path)
        else:
            replace(path, dice)
        declared, *cells = code_cells(dice.choice(ANALYSES))

        def call(
            folder: Path = folder,
            cells: Sequence[str] = (declared, f"results = {str(folder)!r}", *cells),
            same: bool = how < 0.45,
        ) -> None:
            found = read_tables(folder)
            if same and any(not found[name].equals(right[name]) for name in found):
                sys.exit(WRONG_ANSWER)
            for row in found["operations"].to_pylist():
                bins, counts = row["histogram_bin"], row["histogram_count"]
                if bins and sum(counts):
                    quantile(bins, counts, row["min_ns"], row["max_ns"], 0.99)
            if "nan" in run_cells(cells, place).user_ns["data"].conditions():
                sys.exit(WRONG_ANSWER)

        yield Case(f"an analysis of {str(folder)!r}", call, folder, [folder.name])


def other_parameters(declared: str, dice: Random, out: Path) -> dict[str, Any]:
    """Parameters as papermill passes them from YAML: one other value, at times an unknown name."""
    usual = {
        target.id: ast.literal_eval(statement.value)
        for statement in ast.parse(declared).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    name = dice.choice(sorted(usual))
    value = dice.choice([value for value in NASTY if not isinstance(value, Raw)])
    if type(usual[name]) is list and dice.random() < 0.6:
        value = [value]
    given = {name: value}
    if dice.random() < 0.1:
        given[dice.choice(["recrods", "x", "Results"])] = 1
    if "out" in usual:
        given.setdefault("out", str(out))
    return given


def parameters(dice: Random, place: Path, _: Path) -> Iterator[Case]:
    """Parameters for the cells of notebooks that check them."""
    while True:
        folder = fresh(place)
        notebook = dice.choice([SWEEP, SWEEP, SWEEP, *NOTEBOOKS])
        declared, check = code_cells(notebook)[:2]
        given = other_parameters(declared, dice, folder / "out")

        def call(
            notebook: Path = notebook,
            cells: Sequence[str] = (declared, PythonTranslator.codify(given), check),
        ) -> None:
            space = run_cells(cells, place).user_ns
            if notebook == SWEEP:
                Sweep([space["grid"]], space["folder"])

        text = f"papermill {notebook.name} with {given!r}"
        words = [one_line(str(value))[:30] for value in given.values()]
        yield Case(text[:5000], call, folder, [*given, *words])


class Kind(NamedTuple):
    cases: Callable[[Random, Path, Path], Iterator[Case]]
    long: int  # inputs
    short: int


KINDS = {
    "grids": Kind(grids, 2000, 100),
    "options": Kind(options, 500, 40),
    "results folders": Kind(results, 1200, 100),
    "Parquet files": Kind(parquet, 800, 60),
    "papermill parameters": Kind(parameters, 500, 30),
}


def rows(form: Form) -> Iterator[Row]:
    """Yields a row for each kind of input. Keeps inputs that break a rule in place/violations."""
    place = form.place
    catalogue.known()  # loads engines and bindings once, for all children
    pa.set_cpu_count(1)
    import_all(NOTEBOOKS)
    whole = small_results(place)
    gc.freeze()  # garbage collection in a child would copy this process's memory
    for what, kind in KINDS.items():
        tally = Tally(what, place)
        cases = kind.cases(Random(f"{form.seed} {what}"), place / "work", whole)
        for case in itertools.islice(cases, kind.short if form.short else kind.long):
            tally.try_(case)
        yield tally.row()
