"""How long a cell is likely to take: for the progress bar and the dry run."""

from kvbench.factors import Cell
from kvbench.plan import EVICTIONS, PER_EVICTION, SAMPLES
from kvbench.stores import DISTRIBUTED
from kvbench.workload import CHURN, MIX, PERCENT, RANDOM_READS, ROUNDS, SCANS, TRAFFIC, parse

# Seconds, fitted to an early pilot and to a sweep of every store: per record loaded and
# checked, per byte of it, per operation, per byte of it; and how many times a write waits for the
# device.
_RATES: dict[str, tuple[float, ...]] = {
    "flat": (31e-6, 0.7e-9, 31e-6, 0.5e-9, 0),
    "nested": (50e-6, 0.8e-9, 33e-6, 0.5e-9, 0),
    "leveldb": (1.3e-6, 3.6e-9, 6e-6, 3e-9, 0),
    "rocksdb": (2.1e-6, 3.9e-9, 9.9e-6, 1.3e-9, 0),
    "lmdb": (1.1e-6, 1.8e-9, 53e-6, 0.3e-9, 1),
    "bdb": (1e-6, 3.1e-9, 6.5e-6, 0.7e-9, 0),
    "sqlite": (10e-6, 2.6e-9, 130e-6, 2.6e-9, 3),
    "hyperleveldb": (0.7e-6, 7.9e-9, 2.6e-6, 3.7e-9, 0),
    "basho": (2.1e-6, 5.2e-9, 3e-6, 1.3e-9, 0),
    "bdb-hash": (4.5e-6, 2.8e-9, 4.7e-6, 0.8e-9, 0),
    "kyoto-tree": (1.6e-6, 2.5e-9, 2.2e-6, 1.2e-9, 0),
    "kyoto-hash": (2.5e-6, 1.2e-9, 2.3e-6, 0.3e-9, 0),
    "wiredtiger-btree": (13e-6, 2.4e-9, 5.1e-6, 1.2e-9, 0),
    "wiredtiger-lsm": (14e-6, 3.5e-9, 3.4e-6, 2.3e-9, 0),
    "tkrzw-tree": (1.6e-6, 3.5e-9, 2.6e-6, 1.4e-9, 0),
    "tkrzw-hash": (2e-6, 2e-9, 2.2e-6, 0.4e-9, 0),
    "tokyocabinet-tree": (2.4e-6, 3e-9, 3.6e-6, 1.7e-9, 0),
    "gdbm": (19e-6, 16e-9, 3e-6, 1.6e-9, 0),
    "mdbx": (1.7e-6, 2.5e-9, 4.5e-6, 2.1e-9, 2),
    "tidesdb": (2.9e-6, 23e-9, 53e-6, 13e-9, 0),
    "redb": (4.9e-6, 4.3e-9, 25e-6, 1.5e-9, 1),
    "fjall": (17e-6, 3.2e-9, 2.9e-6, 1.8e-9, 0),
    "null": (0.3e-6, 0, 1e-6, 0, 0),
    # Bindings that use their engine in a way of their own: processor time, on a busy machine.
    "gdbm/dbm.gnu": (9.1e-6, 4.5e-9, 5.1e-6, 0.7e-9, 0),
    "gdbm/shelve": (14e-6, 5.8e-9, 7.6e-6, 1.6e-9, 0),
    "sqlite/diskcache": (75e-6, 13e-9, 55e-6, 11e-9, 0),
    "sqlite/sqlitedict": (350e-6, 9.3e-9, 550e-6, 6.1e-9, 0),
}
_PYTHON = (3e-6, 1e-9, 3e-6, 1e-9, 0)  # what any other binding adds
_OTHER = (5e-6, 3e-9, 30e-6, 2e-9, 1)
_SYNCS = {"none": 0, "process": 0, "sync": 2, "atomic": 2}  # of a write, roughly
_EVICTION, _COLD_READ = 0.1, 0.5e-3  # seconds to empty the page cache; to read a page from disk
_PROCESS = 0.6  # to start and end a worker, and until the engine is quiet


def _steps(cell: Cell, record: float, operation: float, sync: float) -> float:
    """Of a workload: the load, unless it begins with a fill, its steps, and the check."""
    total = 2 * cell.records * record
    for step in parse(cell.workload):
        ops = step.get("ops", cell.records)
        if step.name == TRAFFIC:
            reads = step.threads()[0] * step.get("reads", cell.records) * operation
            most = step.get("seconds", 3600)
            total += min(reads, most) if reads else most  # without a limit all of the time
        elif step.name == MIX:
            writes = 1 - step.reads / PERCENT
            total += step.get("seconds", 0) or ops * (operation + writes * sync)
        elif step.name == CHURN:
            ops = step.get("times", 3) * cell.records
            needed = max(step.get("seconds", 0), ops * (operation + sync))
            total += min(needed, step.get("most", 24 * 3600))
        elif step.name in SCANS:
            total += ops * record / 2
        elif step.name in RANDOM_READS:
            total += ops * operation
        else:
            total += ops * (operation + sync / step.get("batch", 1))
    return total


def seconds(cell: Cell, fsync_ms: float) -> float:
    """From rates of one machine, with this device's time for an fsync."""
    rates = _RATES.get(cell.store.removesuffix(DISTRIBUTED), _OTHER)
    if cell.binding:
        added = tuple(map(sum, zip(rates, _PYTHON, strict=True)))
        rates = _RATES.get(cell.full_name, added)
    record, byte, operation, operation_byte, syncs = rates
    mean = cell.record_size.mean
    load = cell.records * (record + byte * mean)
    each = operation + operation_byte * mean
    sync = _SYNCS.get(cell.durability, syncs) * fsync_ms / 1000
    if cell.workload != ROUNDS:
        return _PROCESS + _steps(cell, record + byte * mean, each, sync)
    if cell.cache == "cold":
        cold = EVICTIONS * (_EVICTION + PER_EVICTION * _COLD_READ)
        return _PROCESS + load + len(cell.timed) * cold
    times = (SAMPLES * (each + (0 if name == "get" else sync)) for name in cell.timed)
    return _PROCESS + load + sum(max(time, cell.least_ms / 1000) for time in times)
