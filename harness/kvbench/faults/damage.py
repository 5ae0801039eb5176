"""Damages the files of a closed store. The files are kept in memory, to begin each damage anew."""

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kvbench.common.messages import BadInput, brief

BLOCK = 4096  # bytes
KINDS = {  # of damage, with what each does
    "bit": "one bit is flipped",
    "zeroed": "a block of 4 KiB is zeroed",
    "older": "a block of 4 KiB gets back the bytes that it had at an earlier close of the store",
    "exchanged": "two blocks of 4 KiB change places",
    "cut": "the end of a file is cut off",
}
FEW = 100  # files that are written anew after each damage; of more files, only the changed ones
TRIES = 1000  # at a place where the damage changes a byte


def parse(text: str) -> tuple[str, int]:
    """The kind and number of a damage, from a text such as "bit 17". Raises BadInput."""
    kind, _, number = text.partition(" ")
    if kind not in KINDS or not (number.isascii() and number.isdecimal()):
        allowed = f"one of {', '.join(KINDS)}, then a number, as 'bit 17'"
        raise BadInput(f"{brief(text)!r} is no damage; allowed: {allowed}")
    return kind, int(number)


class Image(NamedTuple):
    """The contents of a folder. Paths are relative to it."""

    folders: tuple[str, ...]
    files: dict[str, bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))


class Damage(NamedTuple):
    """The files that a damage changes, and what it does, in words."""

    files: dict[str, bytes]
    said: str


def read_image(folder: Path) -> Image:
    paths = sorted(folder.rglob("*"))
    folders = tuple(str(path.relative_to(folder)) for path in paths if path.is_dir())
    files = {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}
    return Image(folders, files)


def _block(data: bytes, offset: int) -> bytes:
    """The block at an offset, filled up with zeros if the file ends in it."""
    return data[offset : offset + BLOCK].ljust(BLOCK, b"\0")


def _with(data: bytes, offset: int, new: bytes) -> bytes:
    """The data with new bytes at an offset. It does not grow."""
    found = bytearray(data)
    found[offset : offset + len(new)] = new[: len(data) - offset]
    return bytes(found)


def _older_blocks(image: Image, earlier: Sequence[Image]) -> list[tuple[str, int, int]]:
    """The file and offset of each block that differed in an earlier image, with that image's
    number."""
    found = []
    for name, data in image.files.items():
        for offset in range(0, len(data), BLOCK):
            there = {data[offset : offset + BLOCK]}
            for number, other in enumerate(earlier):
                before = other.files.get(name, b"")
                block = _block(before, offset)[: len(data) - offset]
                if offset < len(before) and block not in there:
                    there.add(block)
                    found.append((name, offset, number))
    return found


class Damager:
    """Draws damages of the files of an image, each from the seed, its kind and its number alone. A
    place is drawn in proportion to the sizes of the files. A damage changes at least one byte."""

    def __init__(self, image: Image, earlier: Sequence[Image], seed: str) -> None:
        self._image, self._earlier, self._seed = image, earlier, seed
        self._names = list(image.files)
        self._sizes = [len(data) for data in image.files.values()]
        self._older = _older_blocks(image, earlier)
        random.Random(seed).shuffle(self._older)

    def count(self, kind: str, wanted: int) -> int:
        """How many damages of a kind there are, up to the number wanted: few blocks may have an
        older version."""
        return min(wanted, len(self._older)) if kind == "older" else wanted

    def damage(self, kind: str, number: int) -> Damage:
        """Raises BadInput beyond the last older block, or if no place for the damage is found."""
        if kind == "older":
            if number >= len(self._older):
                has = f"{len(self._older):,} older versions of blocks"
                raise BadInput(f"older {number}: the store has {has}")
            return self._restored(*self._older[number])
        choose = random.Random(f"{self._seed} {kind} {number}")
        for _ in range(TRIES):
            found: Damage = getattr(self, f"_{kind}")(choose)
            if any(found.files[name] != self._image.files[name] for name in found.files):
                return found
        raise BadInput(f"{kind} {number}: no place is found where it changes a byte")

    def _place(self, choose: random.Random) -> tuple[str, int]:
        (name,) = choose.choices(self._names, self._sizes)
        return name, choose.randrange(len(self._image.files[name]))

    def _at_block(self, choose: random.Random) -> tuple[str, int]:
        name, offset = self._place(choose)
        return name, offset // BLOCK * BLOCK

    def _of(self, name: str, offset: int) -> str:
        return f"{name}, byte {offset:,} of {len(self._image.files[name]):,}"

    def _bit(self, choose: random.Random) -> Damage:
        (name, offset), bit = self._place(choose), choose.randrange(8)
        data = self._image.files[name]
        new = _with(data, offset, bytes([data[offset] ^ 1 << bit]))
        return Damage({name: new}, f"{self._of(name, offset)}: bit {bit} is flipped")

    def _zeroed(self, choose: random.Random) -> Damage:
        name, offset = self._at_block(choose)
        new = _with(self._image.files[name], offset, bytes(BLOCK))
        return Damage({name: new}, f"{self._of(name, offset)}: the block is zeroed")

    def _exchanged(self, choose: random.Random) -> Damage:
        places = self._at_block(choose), self._at_block(choose)
        files = {name: self._image.files[name] for name, _ in places}
        blocks = [_block(files[name], offset) for name, offset in places]
        for (name, offset), block in zip(places, reversed(blocks), strict=True):
            files[name] = _with(files[name], offset, block)
        first, second = (self._of(*place) for place in places)
        return Damage(files, f"{first}: the block is exchanged with {second}")

    def _cut(self, choose: random.Random) -> Damage:
        name, offset = self._place(choose)
        new = self._image.files[name][:offset]
        return Damage({name: new}, f"{self._of(name, offset)}: the file is cut off")

    def _restored(self, name: str, offset: int, number: int) -> Damage:
        data, before = self._image.files[name], self._earlier[number].files[name]
        said = f"{self._of(name, offset)}: the block is as it was after stage {number + 1}"
        return Damage({name: _with(data, offset, _block(before, offset))}, said)


State = tuple[int, ...]


def _state(path: str) -> State:
    """What changes when a file is written or replaced; empty if it is missing."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Copy:
    """A copy of an image in a folder, where a store may be opened."""

    def __init__(self, image: Image, folder: Path) -> None:
        self._image, self.folder = image, folder
        self._paths = {name: str(folder / name) for name in image.files}
        self._states: dict[str, State] = {}
        self._write_all()

    def _write_all(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for name in self._image.folders:
            (self.folder / name).mkdir()
        self._write(self._image.files)

    def _write(self, files: dict[str, bytes]) -> None:
        for name, data in files.items():
            with open(self._paths[name], "wb") as file:
                file.write(data)
            self._states[name] = _state(self._paths[name])

    def damage(self, damage: Damage) -> None:
        for name, data in damage.files.items():
            (self.folder / name).write_bytes(data)

    def restore(self, damage: Damage) -> None:
        """Make the copy whole again. Few files are all written anew, since a write through a map
        may not show in a file's state."""
        count = sum(len(names) for _, _, names in os.walk(self.folder))
        if len(self._states) <= FEW or count != len(self._states):
            self._write_all()
            return
        changed = {
            name for name, state in self._states.items() if _state(self._paths[name]) != state
        }
        self._write({name: self._image.files[name] for name in changed | damage.files.keys()})
