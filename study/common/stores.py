"""A colour and a marker for each store.

The first seven have the colours of Okabe and Ito, which colour-blind readers tell apart; stores of
one engine share a colour and differ in marker.
"""

from zlib import crc32

from matplotlib.colors import to_rgb

STORES = {
    "flat": ("#0072B2", "o"),
    "nested": ("#56B4E9", "s"),
    "leveldb": ("#D55E00", "^"),
    "leveldb-debian": ("#D55E00", "H"),
    "hyperleveldb": ("#D55E00", "<"),
    "basho": ("#D55E00", ">"),
    "rocksdb": ("#E69F00", "v"),
    "rocksdb-debian": ("#E69F00", "H"),
    "lmdb": ("#009E73", "D"),
    "lmdb-debian": ("#009E73", "H"),
    "mdbx": ("#009E73", "d"),
    "bdb": ("#CC79A7", "P"),
    "bdb-hash": ("#CC79A7", "p"),
    "sqlite": ("#999999", "X"),
    "sqlite-debian": ("#999999", "H"),
    "kyoto-tree": ("#A89F00", "h"),
    "kyoto-hash": ("#A89F00", "8"),
    "wiredtiger-btree": ("#5E3C99", "d"),
    "wiredtiger-lsm": ("#5E3C99", "*"),
    "tkrzw-tree": ("#8C510A", "1"),
    "tkrzw-hash": ("#8C510A", "2"),
    "tokyocabinet-tree": ("#1B4F4F", "3"),
    "tokudb": ("#C51B7D", "4"),
    "gdbm": ("#444444", "+"),
    "tidesdb": ("#A50026", "H"),
    "redb": ("#66A61E", "x"),
    "fjall": ("#35978F", "|"),
    "null": ("#000000", "."),
}


# Of the stores of others, in colours of Tol.
COLOURS = ("#332288", "#AA4499", "#117733", "#882255", "#DDCC77", "#6699CC")
MARKERS = "oDs^vP"


def _look(store: str) -> tuple[str, str]:
    """Colour and marker; those of a store that is not listed follow from its name."""
    number = crc32(store.encode())
    kind, shape = number % len(COLOURS), number // len(COLOURS) % len(MARKERS)
    return STORES.get(store, (COLOURS[kind], MARKERS[shape]))


def colour(store: str) -> str:
    return _look(store)[0]


def marker(store: str) -> str:
    return _look(store)[1]


def tint(store: str, strength: float) -> tuple[float, float, float]:
    """The store's colour, mixed with white; all of it at a strength of 1."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour(store)))
    return red, green, blue


def ink(store: str, strength: float) -> str:
    """Black or white: what can be read upon such a tint."""
    red, green, blue = tint(store, strength)
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
