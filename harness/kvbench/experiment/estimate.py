"""How long a cell is likely to take, for the progress bar and the dry run, and may take at most."""

from kvbench.cell.factors import Cell
from kvbench.cell.plan import EVICTIONS, PER_EVICTION, SAMPLES
from kvbench.cell.workload import CHURN, MIX, PERCENT, RANDOM_READS, ROUNDS, SCANS, TRAFFIC, parse
from kvbench.stores.catalogue import DISTRIBUTED

TIME_LIMIT = 3600  # seconds a cell may take, unless a sweep is told otherwise

# Seconds, fitted by non-negative least squares to what the cells in data/ took: per record loaded
# and checked, per byte of it, per operation, per byte of it; and how many times a write of a store
# as shipped waits for the device. By experiment the sums lie within a quarter of what it took, but
# for those whose engines stall on large data (rocksdb-2013, claims-2026), which took twice that.
_RATES: dict[str, tuple[float, ...]] = {
    "flat": (43e-6, 0.75e-9, 0.12e-6, 0.34e-9, 0),
    "nested": (67e-6, 3.4e-9, 0.13e-6, 0.26e-9, 0),
    "leveldb": (0, 7.7e-9, 5.4e-6, 2.8e-9, 0),
    "rocksdb": (0, 5.6e-9, 8e-6, 0.99e-9, 0),
    "lmdb": (0, 1.6e-9, 1.7e-6, 0.39e-9, 1.9),
    "bdb": (1.3e-6, 5.5e-9, 6.8e-6, 3e-9, 0),
    "sqlite": (0, 2.1e-9, 5.1e-6, 0.98e-9, 6.1),
    "hyperleveldb": (0, 2e-9, 0.6e-6, 4.1e-9, 0),
    "basho": (0, 12e-9, 0.72e-6, 0.12e-9, 0),
    "bdb-hash": (0, 1.6e-9, 5.8e-6, 3.2e-9, 0),
    "kyoto-tree": (0.2e-6, 2.8e-9, 0, 0, 0),
    "kyoto-hash": (0, 1.5e-9, 0.51e-6, 3e-9, 0),
    "wiredtiger-btree": (1.7e-6, 3e-9, 2.6e-6, 0.76e-9, 0),
    "wiredtiger-lsm": (0, 1.6e-9, 2.7e-6, 3.1e-9, 0),
    "tkrzw-tree": (2.9e-6, 0, 5.3e-6, 7.2e-9, 0),
    "tkrzw-hash": (2e-6, 2.3e-9, 0, 1.3e-9, 0),
    "tokyocabinet-tree": (42e-6, 7.8e-9, 0, 0, 0),
    "gdbm": (1.5e-6, 3.4e-9, 0, 0, 0),
    "mdbx": (0.2e-6, 2.2e-9, 0.16e-6, 0.45e-9, 2),
    "tidesdb": (0, 13e-9, 3.5e-6, 1e-9, 0),
    "redb": (0, 4.9e-9, 4.1e-6, 0.49e-9, 0.77),
    "fjall": (0.75e-6, 3.9e-9, 1.5e-6, 0.77e-9, 0),
    "null": (0, 18e-9, 1e-6, 0, 0),
    # Bindings that use their engine in a way of their own: processor time, on a busy machine.
    "gdbm/dbm.gnu": (9.1e-6, 4.5e-9, 5.1e-6, 0.7e-9, 0),
    "gdbm/shelve": (14e-6, 5.8e-9, 7.6e-6, 1.6e-9, 0),
    "sqlite/diskcache": (75e-6, 13e-9, 55e-6, 11e-9, 0),
    "sqlite/sqlitedict": (350e-6, 9.3e-9, 550e-6, 6.1e-9, 0),
}
_PYTHON = (3e-6, 1e-9, 3e-6, 1e-9, 0)  # what any other binding adds
_OTHER = (5e-6, 3e-9, 30e-6, 2e-9, 1)
_SYNCS = {"none": 0, "process": 0, "sync": 2, "atomic": 2}  # of a write, roughly
_EVICTION, _COLD_READ = 0.01, 0.5e-3  # seconds to empty the page cache; to read a page from disk
_PROCESS = 0.9  # to start and end a worker, and until the engine is quiet


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
