"""Estimates how long a cell takes, for the progress bar and the dry run, and sets its time
limit."""

from msgspec.structs import astuple

from kvbench.cell.factors import Cell
from kvbench.cell.plan import EVICTIONS, LEAST_BATCHES, PER_EVICTION, SAMPLES
from kvbench.cell.workload import (
    BACKUP,
    CHURN,
    CONCURRENT,
    MIX,
    PERCENT,
    RANDOM_READS,
    ROUNDS,
    SCANS,
    parse,
)
from kvbench.stores.about import C, Rates, entry

# The rates in the stores' TOML files were fitted to the durations of the cells in data/ by
# non-negative least squares. The estimate of an experiment is within 25% of its duration, except
# where engines stall on large data (rocksdb-2013, claims-2026), which took twice as long.
_PYTHON = Rates(3e-6, 1e-9, 3e-6, 1e-9)  # added for a binding without stated rates
_OTHER = Rates(5e-6, 3e-9, 30e-6, 2e-9, 1)  # of a store without stated rates
TIME_LIMIT = 3600  # seconds that a cell may take by default
_SYNCS = {"none": 0, "process": 0, "recoverable": 0.2, "sync": 2, "atomic": 2}  # per write, roughly
_EVICTION, _COLD_READ = 0.01, 0.5e-3  # seconds to empty the page cache; to read a page from disk
_READS = 100  # from the disk in each eviction, roughly, most of them to mount it and open the store
_PROCESS = 0.9  # seconds to start and end a worker, and for the engine to become idle


def _steps(cell: Cell, record: float, operation: float, sync: float) -> float:
    """The seconds of a workload: the load, unless it begins with a fill, its steps, and the
    check."""
    total = 2 * cell.records * record
    for step in parse(cell.workload):
        ops = step.get("ops", cell.records)
        if step.name in CONCURRENT:
            reads = step.threads()[0] * step.gets(cell.records) * operation
            most = step.get("seconds", 3600)
            total += min(reads, most) if reads else most  # without a limit, for the whole time
        elif step.name == MIX:
            writes = 1 - step.reads / PERCENT
            total += step.get("seconds", 0) or ops * (operation + writes * sync)
        elif step.name == CHURN:
            ops = step.get("times", 3) * cell.records
            needed = max(step.get("seconds", 0), ops * (operation + sync))
            total += min(needed, step.get("most", 24 * 3600))
        elif step.name in SCANS:
            total += ops * record / 2
        elif step.name == BACKUP:
            total += ops * record  # copies, and checks the copy
        elif step.name in RANDOM_READS:
            total += ops * operation
        else:
            total += ops * (operation + sync / step.get("batch", 1))
    return total


def _rates(cell: Cell) -> tuple[float, ...]:
    stated = entry(cell.store).rates
    own, usual = stated.get(cell.binding or C), astuple(stated.get(C, _OTHER))
    if own or not cell.binding:
        return astuple(own or _OTHER)
    return tuple(map(sum, zip(usual, astuple(_PYTHON), strict=True)))


def seconds(cell: Cell, fsync_ms: float, read_ms: float = 0.0) -> float:
    """The expected duration of a cell in seconds, from rates of one machine, this device's time for
    an fsync, and by how much its reads are slowed down."""
    record, byte, operation, operation_byte, syncs = _rates(cell)
    mean = cell.record_size.mean
    load = cell.records * (record + byte * mean)
    each = operation + operation_byte * mean
    sync = _SYNCS.get(cell.durability, syncs) * fsync_ms / 1000
    if cell.workload != ROUNDS:
        return _PROCESS + _steps(cell, record + byte * mean, each, sync)
    if cell.cache == "cold":
        slowed = _READS * read_ms / 1000
        cold = EVICTIONS * (_EVICTION + PER_EVICTION * _COLD_READ + slowed)
        return _PROCESS + load + len(cell.timed) * cold
    writes = SAMPLES if cell.batch < 2 else LEAST_BATCHES  # syncs; the records take their time, too
    records = max(SAMPLES, LEAST_BATCHES * cell.batch)
    times = (records * each + (0 if name == "get" else writes * sync) for name in cell.timed)
    return _PROCESS + load + sum(max(time, cell.least_ms / 1000) for time in times)
