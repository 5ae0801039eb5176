"""The colour and the marker of each store, as the TOML file beside its source states them.

The first seven engines have the colours of Okabe and Ito, which colour-blind readers can
distinguish. Stores of one engine share a colour and differ in marker.
"""

from zlib import crc32

from kvbench.stores.about import engine, entry
from matplotlib.colors import to_rgb

# For stores without a stated colour: colours of Tol.
COLOURS = ("#332288", "#AA4499", "#117733", "#882255", "#DDCC77", "#6699CC")
MARKERS = "oDs^vP"
SECOND = "H"  # the marker of an engine's second build, which has the engine's colour


def _look(store: str) -> tuple[str, str]:
    """Return colour and marker. Where none is stated, both follow from the store's name."""
    number, said = crc32(store.encode()), entry(store)
    kind, shape = number % len(COLOURS), number // len(COLOURS) % len(MARKERS)
    other = SECOND if said.marker and engine(store) != store else said.marker
    return said.colour or COLOURS[kind], other or MARKERS[shape]


def colour(store: str) -> str:
    return _look(store)[0]


def marker(store: str) -> str:
    return _look(store)[1]


def tint(store: str, strength: float) -> tuple[float, float, float]:
    """Return the store's colour mixed with white; the pure colour at a strength of 1."""
    red, green, blue = (1 - strength * (1 - part) for part in to_rgb(colour(store)))
    return red, green, blue


def ink(store: str, strength: float) -> str:
    """Return black or white, whichever is readable on such a tint."""
    red, green, blue = tint(store, strength)
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
