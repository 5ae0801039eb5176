"""Seeded mutations of all that a user or a disk can hand to the program.

Bad input is refused: one line on the standard error that begins with "kvbench: " and names what is
wrong, exit status 2, nothing written. What is still valid works. Neither is ever unpickled or
evaluated, and nothing takes longer than LIMIT. Each input that breaks the rule is kept.
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
import select
import shutil
import signal
import subprocess
import sys
import tomllib
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from kvbench import BadInput, cli, one_line, stores
from kvbench.histogram import quantile
from kvbench.results import MARK
from kvbench.sweep import Sweep
from kvbench.tables import TABLES, read_tables
from papermill.translators import PythonTranslator
from table import Row

ROOT = Path(__file__).parents[3]
GRIDS = sorted((ROOT / "harness" / "grids").glob("*.toml"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LIMIT = 20.0  # seconds
MEMORY = 8 << 30  # bytes of addresses that a child may take
REFUSED = 2
ENDED = (0, cli.SOME_FAILED)
CANARY = '__import__("os").abort()'  # no one survives its evaluation
PICKLE = b"cos\nabort\n(tR."  # nor this
Random = random.Random


class Raw(str):
    """Text that stands in a file as it is."""


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


# How values are written and altered


def as_json(value: Any) -> str:
    if isinstance(value, Raw):
        return value
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {as_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    return json.dumps(value, default=str)


def as_toml(value: Any) -> str:
    """A value; what TOML has no word for becomes a file that is none."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(k)} = {as_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return _word(value) if type(value) is str else as_json(value)


def _word(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def toml_file(values: Mapping[str, Any]) -> bytes:
    lines = (f"{_word(key)} = {as_toml(value)}\n" for key, value in values.items())
    return "".join(lines).encode(errors="surrogatepass")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each table or list inside, with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value) if type(value) is list else 0)
    for key in keys:
        yield value, key
        yield from places(value[key])


def nasty(dice: Random) -> Any:
    """A copy, as what it is put into is altered again."""
    return copy.deepcopy(dice.choice(NASTY))


def altered(value: Any, dice: Random) -> Any:
    """A copy in which one key, or a few, is removed, doubled, renamed or another value's."""
    value = json.loads(json.dumps(value, default=str))
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        found = list(places(value))
        if not found:
            return nasty(dice)
        holder, key = dice.choice(found)
        how = dice.randrange(8)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            name = dice.choice([key + "s", key.upper(), "", "a\nb", "é", "x" * 300, "parts"])
            holder[name] = holder.pop(key)
        elif how == 2:
            holder[key] = [holder[key]] if dice.random() < 0.5 else [holder[key], holder[key]]
        elif how == 3:
            other, place = dice.choice(found)
            with contextlib.suppress(KeyError, IndexError):  # of what was just removed
                holder[key] = copy.deepcopy(other[place])
        elif how == 4 and isinstance(holder, list):
            holder[key] = nasty(dice)
        else:
            # A key of a grid holds a list: its inside is of interest as well.
            inside = type(holder[key]) is list and dice.random() < 0.7
            holder[key] = [nasty(dice)] if inside else nasty(dice)
    return value


def spoilt(data: bytes, dice: Random) -> bytes:
    """Bytes flipped, taken out, put in, or doubled; or the rest of the file gone."""
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(len(changed) + 1)
        how = dice.randrange(6)
        if how == 0:
            del changed[at:]
        elif how == 1:
            changed[at:at] = dice.choice(BYTES)
        elif how == 2:
            del changed[at : at + dice.randrange(64)]
        elif how == 3:
            changed[at:at] = changed[at : at + dice.randrange(64)]
        elif at < len(changed):
            changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed)


def doubled(data: bytes, dice: Random) -> bytes:
    """A file of text with one line removed, doubled, or in another's place."""
    lines = data.splitlines(keepends=True)
    at, to = dice.randrange(len(lines)), dice.randrange(len(lines))
    how = dice.randrange(3)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(to, lines[at])
    else:
        lines[at], lines[to] = lines[to], lines[at]
    return b"".join(lines)


# How an input is tried


@dataclasses.dataclass(frozen=True)
class Case:
    """`call` is made in a child of this process. `folder` holds its input and stays as it is, but
    for what a call `writes` whose input is valid; a refusal has one of `names`."""

    command: str
    call: Callable[[], None]
    folder: Path
    names: Sequence[str]
    writes: bool = False


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int  # less than 0: the signal's number
    output: str
    errors: str


WRONG_ANSWER = 77  # exit status of a child that was told one


def _guard(event: str, _: tuple[Any, ...]) -> None:
    """Nothing is unpickled. What is evaluated meets the canary."""
    if event == "pickle.find_class":
        os.write(2, b"Traceback: something is unpickled\n")
        os._exit(1)


def attempt(case: Case, log: Path) -> Outcome:
    """Make the call in a fork, which has everything imported, and end it at the limit."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _child(case, log)
    handle = os.pidfd_open(pid)
    ready, _, _ = select.select([handle], [], [], LIMIT)
    os.close(handle)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    output, errors = (log / name for name in ("output", "errors"))
    return Outcome(
        os.waitstatus_to_exitcode(status),
        output.read_text(errors="replace"),
        errors.read_text(errors="replace") + ("" if ready else f"no end within {LIMIT:g} s\n"),
    )


def _child(case: Case, log: Path) -> None:
    """Never returns."""
    code: Any = 1
    try:
        for number, name in ((1, "output"), (2, "errors")):
            os.dup2(os.open(log / name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.addaudithook(_guard)
        case.call()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BadInput as error:  # as what no command leads to says it
        print(f"kvbench: {error}", file=sys.stderr)
        code = REFUSED
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def listing(folder: Path) -> dict[str, str]:
    """Each path inside with its kind and a digest of its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = f"{path.lstat().st_mode:o}"
        link = os.readlink(path) if path.is_symlink() else ""
        data = path.read_bytes() if not link and path.is_file() else b""
        found[str(path.relative_to(folder))] = f"{mode} {link} {hashlib.sha256(data).hexdigest()}"
    return found


def violation(  # noqa: PLR0911 - a return a part of the rule
    case: Case, outcome: Outcome, before: dict[str, str], after: dict[str, str]
) -> str:
    """Which part of the rule the outcome breaks; empty: none."""
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
    """The inputs of one kind that were tried."""

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


def command(folder: Path, names: Sequence[str], *arguments: Any, writes: bool = False) -> Case:
    """The command line, in the folder that holds its input."""
    texts = [str(argument) for argument in arguments]

    def call() -> None:
        os.chdir(folder)
        try:
            cli.main(texts)
        except SystemExit as end:
            if writes and not end.code:
                read_tables(Path(texts[1]))  # what was collected can be read
            raise

    return Case(" ".join(["kvbench", *map(repr, texts)]), call, folder, names, writes)


def fresh(place: Path) -> Path:
    folder = place / "case"
    folder.mkdir(parents=True)
    return folder


# What is tried


def grids(dice: Random, place: Path, _: Path) -> Iterator[Case]:
    """The experiments' own files, altered as tables, as lines, as bytes."""
    while True:
        source = dice.choice(GRIDS)
        data, values = source.read_bytes(), tomllib.loads(source.read_text())
        how = dice.random()
        if how < 0.6:
            data = toml_file(new if isinstance(new := altered(values, dice), dict) else {})
        else:
            data = doubled(data, dice) if how < 0.75 else spoilt(data, dice)
        folder = fresh(place)
        (folder / "grid.toml").write_bytes(data)
        scales = values.get("scale", {})
        scale = ["--scale", dice.choice([*scales, "0.001"])] if scales else []
        yield command(
            folder,
            ["grid.toml", "options: "],
            "sweep",
            "grid.toml",
            "--out",
            "new",
            "--dry-run",
            *scale,
        )


TEXTS = [
    text
    for text in (value if isinstance(value, str) else str(value) for value in NASTY)
    if "\0" not in text and len(text) < 120_000  # what the kernel takes as an argument
]


def options(dice: Random, place: Path, _: Path) -> Iterator[Case]:
    """Options of a sweep, and paths; on a grid and on an experiment."""
    more = [
        "pilot",
        "tiny",
        "reference",
        "1e-300",
        "1e9",
        "1_0",
        "+2",
        "0x10",
        "64 MiB",
        "-1",
        "1e10",
    ]
    while True:
        folder = fresh(place)
        source = dice.choice(GRIDS)
        shutil.copy(source, folder / "grid.toml")
        value = dice.choice(TEXTS + more)
        if dice.random() < 0.2:
            value = "".join(dice.choices("0123456789.e-+_ KMGiBnaf", k=dice.randrange(1, 12)))
        name = dice.choice(["--scale", "--memory-max", "--time-limit", "--out", "GRID"])
        given = {"GRID": "grid.toml", "--out": "new", "--scale": "pilot"} | {name: value}
        if name != "--scale" and "[scale" not in source.read_text():
            del given["--scale"]
        grid = given.pop("GRID")
        # A path may begin with a dash, so it comes last.
        pairs = [f"{key}={text}" for key, text in given.items()]
        yield command(
            folder,
            ["grid.toml", name, name.strip("-").replace("-", "_"), one_line(value)[:50] or "."],
            "sweep", *pairs, "--dry-run", "--", grid,
        )  # fmt: skip


def small_results(place: Path) -> Path:
    """A real results folder, collected: cells that were measured and cells that were skipped."""
    grid, out = place / "small.toml", place / "small"
    grid.write_text(
        'stores = ["flat", "lmdb"]\nrecords = [50]\ndurability = ["default", "process"]\n'
        'trials = 2\nrecord_sizes = ["100 B"]\n'
    )
    for arguments in (["sweep", grid, "--out", out], ["collect", out]):
        run = [sys.executable, "-m", "kvbench.cli", *map(str, arguments)]
        subprocess.run(run, check=True, capture_output=True)
    return out


def replace(path: Path, dice: Random) -> None:
    """Another thing where a file or folder was."""
    whole = path.parent / f"{path.name}.was"
    path.rename(whole)
    how = dice.randrange(8)
    if how == 0:
        path.mkdir()
    elif how == 1:
        path.symlink_to("nowhere")
    elif how == 2:
        path.symlink_to(path.name)
    elif how == 3:
        path.touch()
    elif how == 4:
        os.mkfifo(path)
    elif how == 5:
        path.write_bytes(dice.randbytes(dice.randrange(2000)))
    elif how == 6:
        path.write_bytes(PICKLE)
    if whole.is_dir():
        shutil.rmtree(whole)
    else:
        whole.unlink()


def add(folder: Path, path: Path, dice: Random) -> None:
    """A file, or a folder, that was not there; a file's content under another's name."""
    how = dice.randrange(6)
    if how == 0:
        shutil.copy(path, path.with_name(dice.choice(["a.json", "\udcff.json", "é\n.json"])))
    elif how == 1:
        name = dice.choice(sorted(TABLES))
        (folder / f"{name}.parquet").unlink()
        (folder / f"{name}.parquet").mkdir()
    elif how == 2:
        (path.parent / ".json").write_text("")
    elif how == 3:
        (folder / dice.choice(["cells.csv", "results.xlsx", "stores"])).mkdir()
    elif how == 4:
        other = dice.choice(sorted(folder.rglob("*.json")))
        path.write_bytes(other.read_bytes())
    else:
        (folder / "cells" / "half.json.1.tmp").write_text("{")


def results(dice: Random, place: Path, whole: Path) -> Iterator[Case]:
    while True:
        folder = fresh(place)
        out = folder / "out"
        shutil.copytree(whole, out)
        (folder / "grid.toml").write_text('stores = ["flat"]\n')
        kind = dice.choice([f"*/{MARK}", "grids/*.json", "machines/*.json", *["cells/*.json"] * 3])
        path = dice.choice(sorted(out.glob(kind) if "*/" not in kind else [out / MARK]))
        how = dice.random()
        if how < 0.55:
            path.write_text(as_json(altered(json.loads(path.read_bytes()), dice)))
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


def other_table(table: pa.Table, dice: Random) -> pa.Table:  # noqa: PLR0911 - a return a way
    """Another table: of other columns, types, rows, values or metadata."""
    at = dice.randrange(table.num_columns)
    field, column = table.schema.field(at), table.column(at)
    how = dice.randrange(13)
    if how == 0:
        return table.remove_column(at)
    if how == 1:
        return table.rename_columns([*table.column_names[:-1], dice.choice(["", "x", "cell"])])
    if how == 2:
        kind = dice.choice([pa.string(), pa.binary(), pa.float32(), pa.int32(), pa.large_string()])
        with contextlib.suppress(pa.ArrowException):
            return table.set_column(at, field.with_type(kind), column.cast(kind))
        return table.set_column(at, field.name, pa.nulls(len(table)))
    if how == 3:
        return table.append_column(dice.choice(["extra", "cell"]), column)
    if how == 4:
        return pa.concat_tables([table, table.slice(0, dice.randrange(len(table) + 1))])
    if how == 5:
        return table.slice(dice.randrange(len(table) + 1))
    if how == 6:
        return table.take(pa.array(dice.sample(range(len(table)), len(table))))
    if how == 7:
        own = {
            b"kvbench_schema": dice.choice([b"", b"5.0", b"999", b"\xff\xfe", PICKLE, b"5\n"]),
            b"pandas": dice.choice([b"", b"{}", b"[]", PICKLE, CANARY.encode(), _of_pandas()]),
            b"ARROW:schema": dice.choice([b"", b"AAAA", b"\xff", PICKLE]),
        }
        keys = dice.sample(sorted(own), dice.randrange(4))
        return table.replace_schema_metadata(
            (table.schema.metadata or {}) | {key: own[key] for key in keys}
        )
    if how == 8:
        names = [b"arrow.py_extension_type", b"arrow.uuid", CANARY.encode()]
        extension = {
            b"ARROW:extension:name": dice.choice(names),
            b"ARROW:extension:metadata": PICKLE,
        }
        return table.set_column(at, field.with_metadata(extension), column)
    values = column.to_pylist()
    texts = ["", "x", "\0", "é" * 1000, CANARY, "1 KiB", "10 B", "ok", "python", "cold"]
    bad = [None, None, *(texts if field.type == pa.string() else [-1, 0, 1, 2**31 - 1])]
    if pa.types.is_floating(field.type):
        bad += [float("nan"), float("inf"), -1e308, 1e308]
    if pa.types.is_list(field.type):
        bad = [None, [], [-1], [0], [None], [1] * 1000, [2**31 - 1, 2**31 - 1]]
    for row in dice.sample(range(len(values)), min(len(values), dice.choice((1, 1, 3, 1000)))):
        values[row] = dice.choice(bad)
    return table.set_column(at, field, pa.array(values, field.type))


def _of_pandas() -> bytes:
    """What pandas leaves in a table, with names that are no names."""
    column = {
        "name": CANARY, "field_name": "cell", "pandas_type": "unicode", "numpy_type": CANARY,
        "metadata": {"encoding": CANARY},
    }  # fmt: skip
    said = {"index_columns": [CANARY], "column_indexes": [column], "columns": [column]}
    return json.dumps(said).encode()


def code(notebook: Path) -> list[str]:
    """The cells of a notebook."""
    cells = json.loads(notebook.read_bytes())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cells(cells: Sequence[str]) -> dict[str, Any]:
    """Run them as a notebook runs them, without a kernel; what they leave."""
    import IPython  # noqa: PLC0415

    space: dict[str, Any] = {"In": cells}
    IPython.get_ipython = lambda: types.SimpleNamespace(user_ns=space)
    for cell in cells[1:]:
        exec(cell, space)
    return space


def analyse(folder: Path, whole: Path | None) -> None:
    """As notebooks begin. What differs from the whole tables unnoticed is a wrong answer."""
    tables = read_tables(folder)
    if whole is not None:
        right = read_tables(whole)
        if any(not tables[name].equals(right[name]) for name in tables):
            sys.exit(WRONG_ANSWER)
    for row in tables["operations"].to_pylist():
        bins, counts = row["histogram_bin"], row["histogram_count"]
        if bins and sum(counts):
            quantile(bins, counts, row["min_ns"], row["max_ns"], 0.99)
    for name in ("sqlite-35", "best-option"):  # the one takes mixed levels, the other the best
        declared, *cells = code(ROOT / "notebooks" / f"{name}.ipynb")
        found = run_cells(["", declared, f"results = {str(folder)!r}", *cells[:2]])["data"]
        found.sizes(), found.counts(), found.stores()
        for factor in ("durability", "memory", "compression", "memory_max"):
            found.level(factor)
        if "nan" in found.conditions():
            sys.exit(WRONG_ANSWER)


def parquet(dice: Random, place: Path, whole: Path) -> Iterator[Case]:
    tables = {name: pq.read_table(whole / f"{name}.parquet") for name in TABLES}
    while True:
        folder = fresh(place)
        name = dice.choice(["cells", "cells", "operations", "operations", "machines"])
        for table in TABLES:
            shutil.copy(whole / f"{table}.parquet", folder)
        path, same = folder / f"{name}.parquet", False
        how = dice.random()
        if how < 0.45:
            path.write_bytes(spoilt(path.read_bytes(), dice))
            same = True
        elif how < 0.95:
            table = other_table(tables[name], dice)
            pq.write_table(table, path, compression=dice.choice(["zstd", "none", "snappy"]))
        elif how < 0.97:
            shutil.copy(folder / f"{dice.choice(sorted(TABLES))}.parquet", folder / "other")
            (folder / "other").rename(path)
        else:
            replace(path, dice)

        def call(folder: Path = folder, reference: Path | None = whole if same else None) -> None:
            os.chdir(ROOT)
            analyse(folder, reference)

        yield Case(f"results = {str(folder)!r} in best-option.ipynb", call, folder, [folder.name])


# Parameters of notebooks


def sources(notebook: Path) -> tuple[dict[str, Any], str, str]:
    """Of a notebook: its parameters, their cell, and the cell that checks them."""
    cells = code(notebook)
    usual = {
        target.id: ast.literal_eval(statement.value)
        for statement in ast.parse(cells[0]).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    return usual, cells[0], cells[1]


def other_parameters(usual: Mapping[str, Any], dice: Random, out: Path) -> dict[str, Any]:
    """As papermill hands them on: from YAML, each by its name."""
    name = dice.choice(sorted(usual))
    value = nasty(dice)
    while isinstance(value, Raw):  # of files' own text
        value = nasty(dice)
    if type(usual[name]) is list and dice.random() < 0.6:
        value = [value]
    given = {name: value}
    if dice.random() < 0.1:
        given[dice.choice(["recrods", "x", "Results"])] = 1
    if "out" in usual:
        given.setdefault("out", str(out))
    return given


def parameters(dice: Random, place: Path, whole: Path) -> Iterator[Case]:
    """The cells that check them."""
    read = {notebook: sources(notebook) for notebook in NOTEBOOKS}
    sweeps = ROOT / "notebooks" / "sweep.ipynb"
    while True:
        folder = fresh(place)
        notebook = dice.choice([sweeps, sweeps, sweeps, *read])
        usual, declared, check = read[notebook]
        given = other_parameters(usual, dice, folder / "out")
        injected = PythonTranslator.codify(given)

        def call(
            notebook: Path = notebook, cells: Sequence[str] = ("", declared, injected, check)
        ) -> None:
            os.chdir(ROOT / "notebooks")
            space = run_cells(cells)
            if notebook == sweeps:
                Sweep([space["grid"]], space["folder"])

        text = f"papermill {notebook.name} with {given!r}"
        words = [one_line(str(value))[:30] for value in given.values()]
        yield Case(text[:5000], call, folder, [*given, *words])


EXECUTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sweep.ipynb", {"stores": ["flat"], "records": [-1]}),
    ("best-option.ipynb", {"results": "nowhere"}),
    ("sweep.ipynb", {"stores": ["flat"], "trials": 2**64}),
    ("sweep.ipynb", {"stores": ["flat"], "workloads": ["fillseq batch=" + "9" * 5000]}),
    ("sweep.ipynb", {"stores": ["a\nb"]}),
    ("sweep.ipynb", {"stores": ["flat"], "out": 5}),
    ("best-option.ipynb", {"results": 5}),
    ("latency.ipynb", {"compressibility": ["half"]}),
    ("space.ipynb", {"results": "data/pilot", "resluts": "x"}),
    ("verdicts.ipynb", {"results": ["data"]}),
)


def execution(notebook: str, given: dict[str, Any], folder: Path) -> tuple[Outcome, str]:
    """A real one: it fails by one line that says what is wrong, before anything is drawn."""
    figures = folder / "figures"
    figures.mkdir()
    if notebook == "sweep.ipynb":
        given = {"out": str(figures / "out"), **given}
    run = [
        sys.executable, "-m", "papermill", "-k", "python3", "--no-progress-bar",
        str(ROOT / "notebooks" / notebook), str(folder / "out.ipynb"), "-y", json.dumps(given),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            run,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            timeout=120,
            env={**os.environ, "KVBENCH_FIGURES": str(figures)},
        )
    except subprocess.TimeoutExpired:
        return Outcome(-signal.SIGKILL, "", ""), "no end"
    said = [line for line in done.stderr.splitlines() if line.startswith("BadInput: ")]
    wrong = ""
    if done.returncode == 0 or len(said) != 1:
        wrong = f"no single line of BadInput: {said}"
    elif os.listdir(figures):
        wrong = "drew or wrote something"
    return Outcome(done.returncode, done.stdout, done.stderr), wrong


KINDS: dict[str, Callable[[Random, Path, Path], Iterator[Case]]] = {
    "grids": grids,
    "options": options,
    "results folders": results,
    "Parquet files": parquet,
    "papermill parameters": parameters,
}
COUNTS = {  # of inputs: long, short
    "grids": (2000, 100),
    "options": (500, 40),
    "results folders": (1200, 100),
    "Parquet files": (800, 60),
    "papermill parameters": (500, 30),
}
EXECUTED = (len(EXECUTIONS), 2)


def rows(short: bool, seed: int, place: Path) -> Iterator[Row]:
    """A row a kind of input; what breaks the rule is kept in place/violations."""
    stores.known()  # loads engines and bindings, once for all children
    pa.set_cpu_count(1)
    whole = small_results(place)
    gc.freeze()  # a collection in a child would copy all of this process
    work = place / "work"
    for what, kind in KINDS.items():
        tally = Tally(what, place)
        cases = kind(Random(f"{seed} {what}"), work, whole)
        for case in itertools.islice(cases, COUNTS[what][short]):
            tally.try_(case)
        if what == "papermill parameters":
            for notebook, given in itertools.islice(EXECUTIONS, EXECUTED[short]):
                folder = fresh(work)
                case = Case(f"papermill {notebook} -y {given!r}", lambda: None, folder, ())
                tally.count(case, *execution(notebook, given, folder))
        yield tally.row()
