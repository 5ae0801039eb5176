"""A letter, a colour and a marker for each store.

The first seven have the colours of Okabe and Ito, which colour-blind readers tell apart; stores of
one engine share a colour and differ in marker.
"""

from zlib import crc32

from matplotlib.colors import to_rgb

STORES = {
    "flat": ("F", "#0072B2", "o"),
    "nested": ("N", "#56B4E9", "s"),
    "leveldb": ("L", "#D55E00", "^"),
    "leveldb-debian": ("Ld", "#D55E00", "H"),
    "hyperleveldb": ("Lh", "#D55E00", "<"),
    "basho": ("Lb", "#D55E00", ">"),
    "rocksdb": ("R", "#E69F00", "v"),
    "rocksdb-debian": ("Rd", "#E69F00", "H"),
    "lmdb": ("M", "#009E73", "D"),
    "lmdb-debian": ("Md", "#009E73", "H"),
    "mdbx": ("Mx", "#009E73", "d"),
    "bdb": ("B", "#CC79A7", "P"),
    "bdb-hash": ("Bh", "#CC79A7", "p"),
    "sqlite": ("S", "#999999", "X"),
    "sqlite-debian": ("Sd", "#999999", "H"),
    "kyoto-tree": ("K", "#A89F00", "h"),
    "kyoto-hash": ("Kh", "#A89F00", "8"),
    "wiredtiger-btree": ("W", "#5E3C99", "d"),
    "wiredtiger-lsm": ("Wl", "#5E3C99", "*"),
    "tkrzw-tree": ("T", "#8C510A", "1"),
    "tkrzw-hash": ("Th", "#8C510A", "2"),
    "tokyocabinet-tree": ("C", "#1B4F4F", "3"),
    "tokudb": ("U", "#C51B7D", "4"),
    "gdbm": ("G", "#444444", "+"),
    "tidesdb": ("D", "#A50026", "H"),
    "redb": ("E", "#66A61E", "x"),
    "fjall": ("J", "#35978F", "|"),
    "null": ("0", "#000000", "."),
}


# Of the stores of others, in colours of Tol.
COLOURS = ("#332288", "#AA4499", "#117733", "#882255", "#DDCC77", "#6699CC")
MARKERS = "oDs^vP"


def _look(store: str) -> tuple[str, str, str]:
    """Letter, colour and marker; those of a store that is not listed follow from its name."""
    number = crc32(store.encode())
    kind, shape = number % len(COLOURS), number // len(COLOURS) % len(MARKERS)
    return STORES.get(store, (store, COLOURS[kind], MARKERS[shape]))


def colour(store: str) -> str:
    return _look(store)[1]


def letter(store: str) -> str:
    return _look(store)[0]


def marker(store: str) -> str:
    return _look(store)[2]


def tint(store: str) -> tuple[float, float, float]:
    """The store's colour, light enough for text upon it."""
    red, green, blue = (0.55 + 0.45 * part for part in to_rgb(colour(store)))
    return red, green, blue
