"""How long a cell is likely to take: for the progress bar and the dry run."""

from kvbench.grid import Cell
from kvbench.plan import SAMPLES

# Seconds, fitted to the cells of data/pilot: (per record loaded, per byte loaded, per operation,
# per byte of an operation), and how many times a write waits for the device.
_RATES = {
    "flat": (140e-6, 1e-9, 30e-6, 0.6e-9, 0),
    "nested": (200e-6, 1e-9, 35e-6, 0.6e-9, 0),
    "leveldb": (2e-6, 5e-9, 5e-6, 7e-9, 0),
    "rocksdb": (4e-6, 2e-9, 8e-6, 2e-9, 0),
    "lmdb": (1.5e-6, 2e-9, 50e-6, 0.4e-9, 1),
    "bdb": (1.5e-6, 2e-9, 4e-6, 0.8e-9, 0),
    "sqlite": (11e-6, 2e-9, 10e-6, 2.5e-9, 3),
}
_OTHER = (5e-6, 2e-9, 20e-6, 2e-9, 1)
_PROCESS = 0.25  # to start and end a worker, and to settle


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
