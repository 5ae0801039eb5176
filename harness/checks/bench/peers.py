"""Compares the harness with third-party benchmarks: the engines' own, and ioarena."""

import functools
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kvbench.cell.plan import CODES, Plan, Records
from kvbench.common.messages import BadInput
from loops import DURABILITY, VALUE, make_loop, make_records, packaged
from measures import Line, Rounds, Scale, Timer, in_folder, interleaved

# Options that restore the engine's defaults where its own benchmark changes them.
PEER_OPTIONS = {
    "lmdb": ("--writemap=0",),
    "rocksdb": (
        "--enable_pipelined_write=false",
        "--dump_malloc_stats=false",
        "--table_cache_numshardbits=6",
        "--delayed_write_rate=16777216",
        "--hard_pending_compaction_bytes_limit=274877906944",
        "--pin_top_level_index_and_filter=true",
        "--index_shortening_mode=1",
        "--perf_level=2",
    ),
}
IOARENA, DB_BENCH = "ioarena", "db_bench"
# The benchmarks that each program runs, with the one to run first, if any.
BENCHMARKS = {
    DB_BENCH: {"fillrandom": "", "fillseq": "", "readrandom": "fillseq", "overwrite": "fillseq"},
    IOARENA: {"set": "", "get": "set"},
}
# The third-party benchmarks by engine.
KNOWN = (
    ("leveldb", DB_BENCH), ("lmdb", DB_BENCH), ("rocksdb", DB_BENCH),
    ("lmdb", IOARENA), ("rocksdb", IOARENA),
)  # fmt: skip


def title(program: str) -> str:
    return IOARENA if Path(program).name == IOARENA else DB_BENCH


def command(program: str, engine: str, benchmarks: Sequence[str], records: int) -> list[str]:
    """The command that runs these benchmarks in its working directory."""
    names = ",".join(benchmarks)
    if title(program) == IOARENA:
        own = f"-D {engine} -B {names} -n {records} -k 16 -v {VALUE} -m lazy -p stores"
        return [program, *own.split()]
    own = f"--benchmarks={names} --num={records} --value_size={VALUE} --compression_ratio=1"
    return [program, *own.split(), *PEER_OPTIONS.get(engine, ())]


def run_program(command: Sequence[str], folder: str) -> str:
    """The output of a command that runs in the folder. Raises BadInput if the command fails."""
    # Every db_bench reads this variable; LMDB's has no other way.
    place = {**os.environ, "TEST_TMPDIR": folder}
    done = subprocess.run(
        command, env=place, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BadInput(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _run_db_bench(
    program: str, engine: str, records: int, _round: int, folder: str
) -> dict[str, float]:
    """The nanoseconds per operation that db_bench reports. Not every db_bench accepts a seed."""
    names = list(BENCHMARKS[DB_BENCH])
    text = run_program(command(program, engine, names, records), folder)
    told = re.findall(r"^(\w+)\s*:\s*([0-9.]+) micros/op", text, re.MULTILINE)
    if {name for name, _ in told} != set(names):
        raise BadInput(
            f"{program}: no time of each of {', '.join(names)} in its output: {text[-300:]}"
        )
    return {name: float(value) * 1000 for name, value in told}


def _run_ioarena(
    program: str, engine: str, records: int, _round: int, folder: str
) -> dict[str, float]:
    """The nanoseconds per operation that ioarena reports as operations per second."""
    names = list(BENCHMARKS[IOARENA])
    text = run_program(command(program, engine, names, records), folder)
    units = {"": 1e9, "K": 1e6, "M": 1e3}
    told = re.findall(r">> (set|get)\(.*?throughput:\s*([0-9.]+)([KM]?)ops/s", text, re.DOTALL)
    if len(told) != 2:
        raise BadInput(f"{program}: no throughput of set and get in its output: {text[-300:]}")
    return {name: units[unit] / float(value) for name, value, unit in told}


def _db_bench_work(records: Records) -> Iterator[tuple[str, Plan]]:
    """The work of db_bench, whose fillrandom and overwrite draw records with replacement."""
    count = records.cell.records
    yield "fillrandom", records.drawn("insert", count)
    yield "fillseq", records.live("insert")
    yield "readrandom", records.drawn("get", count)
    yield "overwrite", records.drawn("update", count)


def _ioarena_work(records: Records) -> Iterator[tuple[str, Plan]]:
    """The work of ioarena: every record once, scattered; then gets in the same order."""
    written, read = (records.shuffled(name, records.cell.records) for name in ("insert", "get"))
    read.c.seed = written.c.seed
    yield "set", written
    yield "get", read


def _like_peer(
    what: str,
    make_work: Callable[[Records], Iterator[tuple[str, Plan]]],
    count: int,
    seed: int,
    folder: str,
) -> dict[str, float]:
    """The wall-clock nanoseconds per operation, since a peer's number includes everything, too.
    Each write is a batch of one, so that no key is looked up first. A fill begins a new store."""
    records = make_records(count, seed)
    loop, found, opened = make_loop(what, records), {}, False
    for name, plan in make_work(records):
        if name in ("fillrandom", "fillseq", "set"):
            if opened:
                loop.close()
            (Path(folder) / name).mkdir()
            loop.open(Path(folder) / name, DURABILITY)
            opened = True
        with Timer() as timer:
            if plan.c.operation == CODES["get"]:
                loop.run(plan)
            else:
                loop.load(plan, 1)
        found[name] = timer.seconds / count * 1e9
    loop.close()
    return found


def peers(
    scale: Scale, programs: Sequence[tuple[str, str]], libraries: Path, place: Path
) -> dict[str, Rounds]:
    """For each program, the ratio of the harness's throughput to its throughput, and to that of a
    bare loop, if any."""
    return {
        f"{engine}, {program}": _peer(scale, engine, program, libraries, place)
        for engine, program in programs
    }


def _peer(scale: Scale, engine: str, program: str, libraries: Path, place: Path) -> Rounds:
    records = scale.peer_records
    run_peer, work, options = _run_db_bench, _db_bench_work, PEER_OPTIONS.get(engine, ())
    if title(program) == IOARENA:
        run_peer, work, options = _run_ioarena, _ioarena_work, ()
    run = functools.partial(in_folder, place)
    like_peer = functools.partial(run, _like_peer)
    sides = {
        "peer": functools.partial(run, run_peer, program, engine, records),
        "harness": functools.partial(like_peer, packaged(engine), work, records),
    }
    library = libraries / f"{engine}.so"
    if library.exists():
        sides["bare"] = functools.partial(like_peer, str(library), work, records)
    note = " ".join((Path(program).name, *options))
    for found in interleaved(**sides):
        ratios = {}
        for name, theirs in found["peer"].items():
            measure = f"{engine}: {name} of {title(program)}"
            line = Line("peer", measure, low=0.95, high=1.05, note=note)
            ratios[line] = theirs / found["harness"][name]
            if "bare" in found:
                line = Line("peer", f"{measure} by the bare loop")
                ratios[line] = theirs / found["bare"][name]
        yield ratios
