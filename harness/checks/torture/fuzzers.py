"""Fuzzes the names of the folder stores' files, and stores against their contract: libFuzzer, with
the address and undefined-behaviour sanitizers."""

import dataclasses
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from builds import BUILT, SHIMS, in_memory, need, program, settings, shims
from table import Row

SOURCES = Path(__file__).parent
SANITIZERS = "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined"
PACKAGES = "clang libclang-rt-dev"
FOUND = BUILT / "fuzz" / "found"  # the inputs that break something; they stay


@dataclasses.dataclass(frozen=True)
class Target:
    """A store, and how many inputs it gets in the long and the short form (0: none)."""

    store: str
    long: int
    short: int = 0
    options: str = ""

    def __str__(self) -> str:
        return f"contract: {self.store}" + (f", {self.options}" if self.options else "")


TARGETS = (
    Target("flat", 30000, 4000),
    Target("flat", 15000, 1000, "durability=atomic"),
    Target("nested", 15000, 1500),
    Target("nested", 8000, 500, "durability=atomic"),
    Target("null", 20000, 1000),
    Target("lmdb", 2000, 100),
    Target("sqlite", 1000, 100),
    Target("leveldb", 1000),
    Target("bdb", 1500),
    Target("bdb-hash", 1500),
    Target("bdb", 200, options="durability=process,threads=on"),
    Target("gdbm", 1500),
    Target("kyoto-tree", 300),
    Target("kyoto-hash", 1500),
    Target("tkrzw-tree", 800),
    Target("tkrzw-hash", 400),
    Target("tokyocabinet-tree", 1500),
    Target("rocksdb", 50),
    Target("wiredtiger-btree", 200),
)
KEYS = {True: 100_000, False: 1_000_000}  # short, long


def rows(short: bool, seed: int, place: Path) -> Iterator[Row]:
    need("clang", PACKAGES)
    targets = [target for target in TARGETS if not short or target.short]
    keys, contract, built = build(targets)
    yield fuzz("folder keys", keys, KEYS[short], seed, {}, "-max_len=300")
    missing = json.loads((built / "stores.json").read_text())
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=in_memory(place)) as folder:
        for target in targets:
            if missing[target.store]:
                continue  # its library is not here
            environment = {
                "KVBENCH_FUZZ_SHIM": str(built / f"{target.store}.so"),
                "KVBENCH_FUZZ_OPTIONS": target.options,
                "KVBENCH_FUZZ_PLACE": folder,
            }
            runs = target.short if short else target.long
            yield fuzz(str(target), contract, runs, seed, environment, "-max_len=1024")


def build(targets: list[Target]) -> tuple[Path, Path, Path]:
    """Both fuzzers, and the folder of the shims."""
    keys = program("fuzz/folder_keys", [SOURCES / "folder_keys.c"], *SANITIZERS, compiler="clang")
    sources = [SOURCES / "contract.c", SHIMS / "bench.c", SHIMS / "records.c"]
    contract = program("fuzz/contract", sources, *SANITIZERS, compiler="clang")
    stores = sorted({target.store for target in targets})
    flags = "-DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link"  # so that coverage is seen
    return keys, contract, shims("fuzz/shims", stores, flags, CC="clang", CXX="clang++")


def fuzz(
    what: str, fuzzer: Path, runs: int, seed: int, environment: dict[str, str], length: str
) -> Row:
    """The engines' own leaks are no finding here; see sanitizers.py."""
    FOUND.mkdir(parents=True, exist_ok=True)
    options = f"-runs={runs}", f"-seed={seed}", "-len_control=0", length, "-detect_leaks=0"
    reports = "-print_final_stats=1", f"-artifact_prefix={FOUND}/"
    done = subprocess.run(
        [fuzzer, *options, *reports],
        env={**os.environ, **environment, **settings(ASAN_OPTIONS={"detect_leaks": 0})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    executed = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    coverage = re.findall(r"cov: (\d+) ft: (\d+)", done.stderr)
    note = "cov {} ft {}".format(*coverage[-1]) if coverage else "did not begin"
    if done.returncode != 0:
        said = re.findall(
            r"^(?:contract of|folder keys|SUMMARY|.*runtime error).*", done.stderr, re.M
        )
        kept = re.findall(r"Test unit written to .*/(\S+)", done.stderr)
        note = "; ".join([note, *(said or done.stderr.splitlines()[-1:]), *kept])
    return Row(
        "fuzz",
        what,
        inputs=int(executed[1]) if executed else 0,
        crashes=int(done.returncode != 0),
        note=note,
    )
