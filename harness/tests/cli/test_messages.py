"""What is refused is refused in one short line that names the value, and help fits a terminal."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from kvbench.cell.factors import parse_bytes
from kvbench.cli import cli
from kvbench.results.tables import read_tables, write_tables
from support import ROOT, Run

LONGEST = 200  # characters of a message, but for the paths in it
WriteGrid = Callable[..., Path]
REFERENCE = ROOT / "data" / "reference"
ADVISE = {"--record-size": "1KiB", "--records": "10k", "--data": str(REFERENCE)}
# The option of a command, values that are refused, and words of what is said to each.
OPTIONS: dict[tuple[str, str], dict[str, str]] = {
    ("advise", "--record-size"): {
        "": "'' is not a size", "4KB": '"4 KiB" for 4,096 B', "4K": '"4 KiB"', "4kib": '"4 KiB"',
        "1.5MB": '"1536 KiB"', "-1": "'-1'", "0": "out of range", "65MiB": "out of range",
        "1e3": "'1e3'", "four": "'four'", "9" * 400: "is not a size", "1-10 KiB": "'1-10 KiB'",
    },
    ("advise", "--records"): {
        "": "''", "0": "'0'", "-5": "'-5'", "1e99": "'1e99'", "1.5": "'1.5'", "10.000": "'10.000'",
        "1,5k": "'1,5k'", "10G": "'10G'", "nan": "'nan'", "9" * 400: "is not a number",
    },
    ("advise", "--mix"): {
        "": "''", "read=": "'read='", "read=0.9": "insert, get, update, remove", "get": "'get'",
        "get=": "'get='", "get=-1": "'get=-1'", "get=nan": "'get=nan'", "get=0": "above 0",
        "get=1,get=1": "each once", "get:1": "'get:1'", "get=0.9;update=0.1": "as get=0.9,update",
        "get=" + "9" * 400: "is not allowed",
    },
    ("advise", "--durability"): {
        "": "", "full": "'full'", "atomic": "'atomic' was not measured", "x" * 400: "xxx",
    },
    ("advise", "--access"): {"": "''", "java": "'java'", "C++": "'C++'"},
    ("advise", "--memory"): {
        "much": "'much'", "4MB": "'4MB'", "1MiB": "'1 MiB' was not measured", "0": "'0'",
    },
    ("advise", "--machine-memory"): {"": "''", "0": "'0'", "16GB": "'16GB'", "big": "'big'"},
    ("advise", "--trace"): {"nowhere": "nowhere"},
    ("advise", "--trace-store"): {"": "''", "0": "0", "x": "'x'", "2": "without --trace"},
    ("advise", "--needs"): {"": "''", "speed": "'speed'", "ordered,": "''", "Ordered": "'Ordered'"},
    ("advise", "--largest-value"): {"": "''", "0": "'0'", "1KB": "'1KB'", "65MiB": "'65MiB'"},
    ("advise", "--stores"): {"lmbd": "'lmbd' was not measured", ",": "'' was not measured"},
    ("advise", "--most-memory"): {"": "''", "0": "'0'", "lots": "'lots'"},
    ("advise", "--largest-key"): {"": "''", "0": "'0'", "x": "'x'", "65MiB": "'65MiB'"},
    ("advise", "--sync-time"): {
        "": "''", "10": "'10'", "0ms": "'0ms'", "2h": "'2h'", "99s": "10 s at most",
        "-1ms": "'-1ms'", "2ms": "allowed with --durability sync",
    },
    ("advise", "--measure"): {"": "''", "60": "'60'", "0s": "'0s'", "999999999min": "too long"},
    ("advise", "--out"): {"mine": "without --measure"},
    ("advise", "--where"): {
        "": "''", "key_size": "'key_size'", "=16": "'=16'", "key=16": "key_size",
        "key_size=99": "allowed: 16", "record_size=1": "'record_size'",
    },
    ("advise", "--data"): {"nowhere": "nowhere"},
    ("advise", "--space"): {"nowhere": "nowhere"},
    ("sweep", "--time-limit"): {"": "''", "0": "0", "x": "'x'", "nan": "nan", "1e9": "'1e9'"},
    ("sweep", "--repeats"): {"": "''", "-1": "-1", "x": "'x'", "1.5": "'1.5'", "999": "0<=x<=100"},
    ("sweep", "--after"): {"nowhere": "nowhere"},
    ("sweep", "--minutes"): {"": "''", "0": "0", "x": "'x'", "1e9": "'1e9'", "nan": "nan"},
    ("sweep", "--scale"): {"": "''", "tiyn": "'tiyn'", "0": "0", "nan": "nan", "1e99": "1e+99"},
    ("sweep", "--stores"): {
        "": "''", "lmbd": "to choose lmdb, name it in `stores`", "sqlite,lmdb": "to choose sqlite",
        "nowhere": "'nowhere' is not a folder", "z" * 300: "is not a folder",
    },
    ("sweep", "--fs"): {"": "''", "zfs": "'zfs'"},
    ("sweep", "--device"): {"": "''", "sync=1": "'sync=1'", "flush=1ms": "'flush=1ms'"},
    ("sweep", "--memory-max"): {"": "''", "64MB": "'64MB'", "9999999 GiB": "9999999 GiB"},
    ("sweep", "--threads"): {"": "''", "1,x": "'x'", "0": "0", "9" * 400: "999"},
    ("sweep", "--scheduler"): {"": "", "nowhere": "nowhere"},
    ("sweep", "--core"): {"nowhere": "nowhere"},
    ("installed", "--build"): {"nowhere": "'nowhere' has no .ninja_log"},
    ("crash", "--crashes"): {"": "''", "0": "0", "x": "'x'", "99999": "99999"},
    ("crash", "--records"): {
        "": "''", "0": "0", "10k": "'10k'", "1000,x": "'x'", "5,": "''", "9" * 400: "'999",
        "5,9999999": "--records: 9,999,999",
    },
    ("crash", "--value-size"): {"": "''", "1KB": "'1KB'", "0": "'0'", "1 GiB": "'1 GiB'"},
    ("crash", "--seconds"): {"": "''", "0": "0", "nan": "nan", "61": "61"},
    ("crash", "--place"): {"nowhere": "'nowhere' is not a folder"},
    ("crash", "--durability"): {"": "''", "full": "'full'"},
    ("crash", "--states"): {"": "''", "0": "0", "x": "'x'"},
    ("crash", "--seed"): {"": "''", "-1": "-1", "x": "'x'"},
    ("crash", "--fs"): {"": "''", "zfs": "'zfs'"},
    ("crash", "--replay"): {"nothing": "--replay"},
    ("faults", "--kind"): {"": "''", "disk": "'disk'"},
    ("faults", "--durability"): {"": "''", "full": "'full'"},
    ("faults", "--first"): {"": "''", "0": "0", "x": "'x'"},
    ("faults", "--seed"): {"": "''", "-1": "-1", "x": "'x'"},
    ("faults", "--workers"): {"": "''", "0": "0", "x": "'x'"},
    ("faults", "--place"): {"nowhere": "'nowhere' is not a folder"},
    ("faults", "--replay"): {
        "": "''", "fsync": "'fsync'", "fsync EIO x once writing": "'fsync EIO x once writing'",
    },
    ("evidence", "--durability"): {"": "''", "full": "'full'"},
    ("evidence", "--place"): {"lmbd": "is not a folder"},
    ("sharing", "--place"): {"lmbd": "is not a folder"},
    ("rot", "--place"): {"nowhere": "'nowhere' is not a folder"},
    ("rot", "--damages"): {"": "''", "0": "0", "x": "'x'"},
    ("rot", "--seed"): {"": "''", "-1": "-1", "x": "'x'"},
    ("rot", "--checks"): {"": "''", "yes": "'yes'"},
    ("rot", "--replay"): {
        "": "''", "bit": "'bit'", "bits 1": "one of bit, zeroed, ", "bit -1": "'bit -1'",
        "bit 1 2": "'bit 1 2'", "x" * 400: "xxx",
    },
    ("compare", "--fail-above"): {
        "": "''", "x": "'x'", "-1%": "'-1%'", "nan": "'nan'", "inf": "'inf'", "9" * 400: "'999",
    },
    ("import", "--format"): {"": "''", "bench": "'bench'", "redb": "not of "},
    ("import", "--store"): {"": "''", "a b": "'a b'", "x" * 400: "xxx"},
    ("import", "--records"): {"": "''", "0": "'0'", "many": "'many'"},
    ("import", "--value-size"): {"": "''", "0": "'0'", "65MiB": "'65MiB'", "x": "'x'"},
    ("import", "--key-size"): {"": "''", "0": "'0'", "x": "'x'"},
    ("import", "--operations"): {"": "''", "0": "'0'", "x": "'x'"},
    ("import", "--durability"): {"full": "'full'", "x" * 400: "xxx"},
    ("accept", "--into"): {
        "": "''", str(ROOT / "README.md"): "README.md' is no folder", "x" * 400: "xxx",
    },
    ("record", "--folder"): {
        "": "''", "nowhere": "'nowhere' is not a folder", "x" * 400: "is not a folder",
    },
    ("record", "--most"): {"": "''", "1KB": "'1KB'", "1KiB": "1 MiB to 64 GiB", "x": "'x'"},
    ("trace", "--trace-store"): {"": "''", "0": "0", "x": "'x'", "2": "2"},
    ("audit", "--operations"): {"": "''", "0": "0", "x": "'x'"},
}  # fmt: skip
REST: dict[str, list[str]] = {
    "crash": ["lmdb", "--out", "x.csv"], "evidence": ["lmdb", "--out", "x.csv"],
    "sharing": ["lmdb", "--out", "x.csv"], "rot": ["lmdb", "--out", "x.csv"],
    "faults": ["lmdb", "--out", "x.csv"], "installed": ["--out", "x.csv"],
    "compare": [str(REFERENCE), str(REFERENCE)],
    "audit": ["--", "true"], "record": ["--out", "x", "--", "true"],
    "trace": [str(ROOT / "harness/tests/trace/samples/rocksdb.txt")],
    "accept": [str(ROOT / "README.md")],
    "import": [str(ROOT / "harness/tests/results/formats/rocksdb.txt"), "--out", "out"],
}  # fmt: skip
TRIED = [
    (command, option, value, said)
    for (command, option), values in OPTIONS.items()
    for value, said in values.items()
    if (option, value) not in {("--durability", ""), ("--scheduler", "")}  # as if not given
]


def assert_one_line(done: object, *words: str) -> None:
    assert done.returncode == 2, done  # type: ignore[attr-defined]
    assert done.stdout == ""  # type: ignore[attr-defined]
    said = done.stderr  # type: ignore[attr-defined]
    assert said.count("\n") == 1 and said.startswith("kvbench: "), said
    for path in (str(REFERENCE), str(Path.cwd())):
        said = said.replace(path, "")
    assert len(said) <= LONGEST, (len(said), said)
    assert "Traceback" not in said and "Error(" not in said
    for word in words:
        assert word in said


@pytest.mark.parametrize(("command", "option", "value", "said"), TRIED, ids=lambda x: x[:20])
def test_a_wrong_value_of_an_option_is_one_short_line(
    command: str,
    option: str,
    value: str,
    said: str,
    kvbench: Run,
    write_grid: WriteGrid,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rest = REST.get(command, [])
    if command == "advise":
        rest = [word for pair in (ADVISE | {option: value}).items() for word in pair]
        assert_one_line(kvbench(command, *rest), said)
        return
    if command == "sweep":
        rest = [str(write_grid().relative_to(tmp_path)), "--out", "out"]
        rest += ["--scheduler", "tcp://127.0.0.1:1"] if option == "--core" else []
    assert_one_line(kvbench(command, option, value, *rest), said)
    if option != "--scheduler":
        assert {path.name for path in tmp_path.iterdir()} <= {"grid.toml"}


def _options() -> Iterator[tuple[str, str]]:
    """Every option of every command that takes a value."""
    for name, command in cli.commands.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.is_flag:
                yield name, parameter.opts[0]


def test_every_option_is_tried() -> None:
    """Those that name what is written may be any path, and patterns of names any text."""
    free = {(name, "--out") for name in cli.commands} - {("advise", "--out")} | {
        ("audit", "--aside")
    }
    assert set(_options()) - free == set(OPTIONS)


GRIDS = {
    'stores = ["lmbd"]': "allowed: lmdb",
    'store = ["lmdb"]': "allowed: stores",
    'record_sizes = ["4KB"]': '"1 KiB"',
    'record_sizes = ["4K", "1 KiB"]': "'4K'",
    "records = [1.5]": "1.5",
    'records = ["10k"]': "a whole number",
    'trials = "7-14"': '"7-15"',
    "trials = 0": '"7-15"',
    "trials = 9223372036854775807": "1 to 10,000",
    "trials = [3]": '"7-15"',
    'operations = ["read"]': "insert, get, update, remove",
    'durability = ["full"]': "process, recoverable, sync",
    'workloads = ["fillrnd"]': "fillrandom",
    'workloads = ["mix read=90"]': "reads",
    'access = ["java"]': "c, python",
    'access = ["python"]\nbindings = ["lmdbb"]': "allowed: lmdb",
    'access = ["python"]\nstores = ["mdbx"]': "access: none of",
    'memory = ["4 MB"]': '"4 MiB"',
    'byte_limit = "4 MB"': '"4 MiB"',
    'options = { lmbd = { x = 1 } }': "'lmbd' is not measured",
}  # fmt: skip


@pytest.mark.parametrize("text", GRIDS)
def test_a_wrong_value_in_a_grid_is_one_short_line(
    text: str, kvbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("grid.toml").write_text(text)
    assert_one_line(kvbench("sweep", "grid.toml", "--out", "out"), "grid.toml", GRIDS[text])


@pytest.mark.parametrize("value", [None, True, [], {}, "", "many"], ids=str)
def test_trials_from_a_notebook_name_every_form_that_is_allowed(value: object) -> None:
    from kvbench.common.messages import BadInput  # noqa: PLC0415 - beside its use
    from kvbench.experiment.grid import Grid  # noqa: PLC0415

    with pytest.raises(BadInput, match=r'allowed: a whole number from 1 to 10,000, or .* "7-15"$'):
        Grid.from_values({"trials": value}, ["lmdb"])


@pytest.mark.parametrize("command", ["evidence", "sharing", "crash"])
def test_an_unknown_store_names_what_is_near(
    command: str, kvbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lmbd", "sqlite/diskcach", "", "x" * 300):
        near = {"lmbd": "lmdb", "sqlite/diskcach": "sqlite/diskcache"}.get(name, "`kvbench stores`")
        assert_one_line(kvbench(command, name, "--out", "x.csv"), near)


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fields of the reference data on either side of 4 KiB: fewer rows are read sooner."""
    folder = tmp_path_factory.mktemp("fields")
    tables = dict(read_tables(REFERENCE))
    cells = tables["cells"].to_pandas()
    near = cells.record_size.isin(["1 KiB", "10 KiB"]) & (cells.records == 10_000)
    kept = pa.array(cells.cell[near & (cells.durability == "process")])
    for name, table in tables.items():
        if "cell" in table.column_names:
            tables[name] = table.filter(pc.is_in(table["cell"], kept))
    write_tables(folder, tables)
    return folder


@pytest.mark.check
def test_sizes_and_numbers_are_taken_where_they_can_mean_one_thing(
    kvbench: Run, fields: Path
) -> None:
    assert parse_bytes("4096") == parse_bytes("4 KiB") == parse_bytes(" 4KiB ") == 4096
    plain = ("advise", "--data", fields, "--json")
    mix = ("--mix", "get=0.9,update=0.1")
    known = kvbench(*plain, "--record-size", "4KiB", "--records", "10000", *mix).stdout
    assert '"store"' in known
    for records in ("1e4", "10k", "10K", "10,000", "10_000", "0.01M"):
        given = ("--record-size", "4096", "--records", records, *mix)
        assert kvbench(*plain, *given).stdout == known, records
    percent = ("--mix", "get=90%,update=10 %")
    given = ("--record-size", "4KiB", "--records", "10000", *percent)
    assert kvbench(*plain, *given).stdout == known


def test_without_the_repository_advise_says_what_to_pass(
    kvbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for access in ("c", "python"):
        given = ("--record-size", "1KiB", "--records", "10k", "--access", access)
        assert_one_line(kvbench("advise", *given), "--data", "repository", "kvbench collect")


def test_options_that_make_another_useless_are_refused(kvbench: Run) -> None:
    for given, said in (
        (("--sync-time", "2ms", "--measure", "9s", "--durability", "sync"), "with --measure"),
        (("--access", "python", "--measure", "9s"), "--access python"),
        (("--access", "python", "--needs", "c-interface"), "--access python"),
    ):
        rest = [word for pair in ADVISE.items() for word in pair]
        assert_one_line(kvbench("advise", *rest, *given), said)


@pytest.mark.parametrize("command", ["", *cli.commands])
def test_help_fits_a_terminal_of_80_columns(command: str, kvbench: Run) -> None:
    words = [command] * bool(command)
    done = kvbench(*words, "--help", env={"COLUMNS": "80"})
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    for escaped in ("\\n", "\\b", "\b"):
        assert escaped not in done.stdout


def test_without_a_command_the_help_is_printed_in_lines(kvbench: Run) -> None:
    done = kvbench()
    assert done.returncode == 2
    assert "\\n" not in done.stderr
    assert done.stderr.splitlines()[0].startswith("Usage: kvbench")
    assert len(done.stderr.splitlines()) > 20


def test_names_are_listed_as_far_as_one_reads_them() -> None:
    from kvbench.common.messages import MOST_LISTED, listed  # noqa: PLC0415 - beside its use

    assert listed(["a", "b"]) == "a, b"
    names = [f"{first}{second}{'x' * 9}" for first, second in itertools.product("abcd", repeat=2)]
    shown, _, more = listed(names).partition(" and ")
    assert len(shown) <= MOST_LISTED
    assert more == f"{len(names) - shown.count(',') - 1} more"
    assert listed(names, "ddxxxxxxx", "there").startswith("ddxxxxxxxxx")
    assert listed(names, "", "there").endswith(" more: see there")
