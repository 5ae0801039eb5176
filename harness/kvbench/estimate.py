"""How long a cell is likely to take: for the progress bar and the dry run."""

from kvbench.grid import Cell
from kvbench.plan import SAMPLES

# Seconds, fitted to the cells of data/pilot: per record loaded and checked, per byte of it, per
# operation, per byte of it; and how many times a write waits for the device.
_RATES = {
    "flat": (31e-6, 0.7e-9, 31e-6, 0.5e-9, 0),
    "nested": (50e-6, 0.8e-9, 33e-6, 0.5e-9, 0),
    "leveldb": (1.3e-6, 3.6e-9, 6e-6, 3e-9, 0),
    "rocksdb": (2.1e-6, 3.9e-9, 9.9e-6, 1.3e-9, 0),
    "lmdb": (1.1e-6, 1.8e-9, 53e-6, 0.3e-9, 1),
    "bdb": (1e-6, 3.1e-9, 6.5e-6, 0.7e-9, 0),
    "sqlite": (10e-6, 2.6e-9, 130e-6, 2.6e-9, 3),
}
_OTHER = (5e-6, 3e-9, 30e-6, 2e-9, 1)
_PROCESS = 0.2  # to start and end a worker, and to settle


def seconds(cell: Cell, fsync_ms: float) -> float:
    """From rates of the machine of the pilot, with this device's time for an fsync."""
    record, byte, operation, operation_byte, syncs = _RATES.get(cell.store, _OTHER)
    mean = cell.record_size.mean
    load = cell.records * (record + byte * mean)
    writes = sum(name != "get" for name in cell.operations)
    reads = len(cell.operations) - writes
    each = operation + operation_byte * mean
    rounds = SAMPLES * (each * (reads + writes) + writes * syncs * fsync_ms / 1000)
    return _PROCESS + load + rounds
