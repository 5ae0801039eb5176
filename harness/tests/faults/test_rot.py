"""What stores return once their files are damaged: stores compiled to notice a damage in each
possible way, and real engines with and without their checks."""

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from kvbench.cell.store import Store
from kvbench.faults import rot
from kvbench.faults.damage import BLOCK, FEW, KINDS, Copy, Damage, Damager, Image, parse
from support import ALTERED, KNOWN, SHIMS, Run

Build = Callable[..., Store]

# A store that ends each value with a sum of its bytes. If get finds another sum, it NOTICES.
SUMMED = """
#include <signal.h>
#include <unistd.h>
static unsigned char sum(const unsigned char *data, size_t size)
{
    unsigned char found = 1;
    for (size_t i = 0; i < size; i++)
        found = found * 31 + data[i];
    return found;
}
static int my_write(struct kv *kv, enum kv_mode mode, const struct kv_record *records, size_t count)
{
    static unsigned char value[8192];
    struct kv_record record = records[0];
    if (mode != KV_REMOVE) {
        memcpy(value, record.value.data, record.value.size);
        value[record.value.size] = sum(value, record.value.size);
        record.value = (struct kv_slice){value, record.value.size + 1};
    }
    return count == 1 ? honest.write(kv, mode, &record, 1) : KV_ERROR;
}
static int my_get(struct kv *kv, struct kv_slice key, void *buffer, size_t room, size_t *size)
{
    int status = honest.get(kv, key, buffer, room, size);
    if (status != KV_OK)
        return status;
    if (*size == 0 || sum(buffer, *size - 1) != ((unsigned char *)buffer)[*size - 1]) {
        NOTICES
    }
    *size -= 1;
    return KV_OK;
}
"""
NOTICED = {
    "wrong": "",
    "missing": "return KV_NOT_FOUND;",
    "crash": "raise(SIGSEGV);",
    "hang": "pause();",
    "reported": 'return kv_fail("damaged");',
}


@pytest.fixture
def summing(
    compile_shim: Callable[..., Path], own_shims: Path, monkeypatch: pytest.MonkeyPatch
) -> Build:
    """Build a store that ends each value with a sum, and what it does when a sum is wrong."""
    monkeypatch.setenv("KVBENCH_SHIMS", str(own_shims))
    template = (SHIMS / "stores/template.c").read_text()
    for old, new in (("1 << 30", "8 << 20"), ("kv_driver kv_driver", "kv_driver honest")):
        template = template.replace(old, new)

    def build(name: str, notices: str, more: str = "", *functions: str) -> Store:
        replaced = "kv_driver.capabilities = 0; kv_driver.scan = NULL;" + "".join(
            f"kv_driver.{function} = my_{function};" for function in ("get", "write", *functions)
        )
        code = SUMMED.replace("NOTICES", notices) + more
        compile_shim(name, ALTERED.format(honest=template, code=code, replaced=replaced))
        return Store(name)

    return build


def image(*sizes: int, seed: int = 1) -> Image:
    choose = random.Random(seed)
    return Image((), {f"file{i}": choose.randbytes(size) for i, size in enumerate(sizes)})


def changed(before: Image, damage: Damage) -> list[tuple[str, int]]:
    """The places of the bytes that a damage changes."""
    return [
        (name, place)
        for name, data in damage.files.items()
        for place, (old, new) in enumerate(zip(before.files[name], data, strict=False))
        if old != new
    ]


def blocks(files: dict[str, bytes]) -> list[bytes]:
    return sorted(
        data[start : start + BLOCK]
        for data in files.values()
        for start in range(0, len(data), BLOCK)
    )


@pytest.mark.parametrize("number", range(20))
def test_a_damage_changes_what_it_says(number: int) -> None:
    whole, earlier = image(10 * BLOCK, 3 * BLOCK), image(10 * BLOCK, 3 * BLOCK, seed=2)
    damager = Damager(whole, [earlier], "seed")
    found = {kind: damager.damage(kind, number % 13) for kind in KINDS}
    again = Damager(whole, [earlier], "seed")
    assert found == {kind: again.damage(kind, number % 13) for kind in KINDS}

    ((name, place),) = changed(whole, found["bit"])
    flipped = found["bit"].files[name][place] ^ whole.files[name][place]
    assert flipped.bit_count() == 1
    assert f"{name}, byte {place:,} of" in found["bit"].said

    for kind, source in (("zeroed", None), ("older", earlier)):
        places = changed(whole, found[kind])
        (name,) = found[kind].files
        start = places[0][1] // BLOCK * BLOCK
        assert all(start <= place < start + BLOCK for _, place in places)
        block = found[kind].files[name][start : start + BLOCK]
        assert block == (source.files[name][start : start + BLOCK] if source else bytes(BLOCK))

    after = {**whole.files, **found["exchanged"].files}
    assert blocks(after) == blocks(whole.files)
    assert after != whole.files

    ((name, data),) = found["cut"].files.items()
    assert len(data) < len(whole.files[name])
    assert whole.files[name].startswith(data)


def test_places_are_drawn_in_proportion_to_the_sizes_of_files() -> None:
    damager = Damager(image(1000, 9000), [], "seed")
    names = [next(iter(damager.damage("bit", number).files)) for number in range(400)]
    assert 20 <= names.count("file0") <= 65  # 40 expected, with five standard deviations


def test_a_store_has_only_so_many_older_blocks() -> None:
    whole = image(4 * BLOCK)
    before = dict(whole.files)
    before["file0"] = bytes(BLOCK) + before["file0"][BLOCK : 2 * BLOCK] + bytes(100)
    damager = Damager(whole, [Image((), before), Image((), before)], "seed")
    assert damager.count("older", 1000) == 2  # the first block, and the beginning of the third
    damages = [damager.damage("older", number) for number in range(2)]
    assert {len(damage.files["file0"]) for damage in damages} == {4 * BLOCK}
    assert damager.count("bit", 1000) == 1000


@pytest.mark.parametrize("count", [3, FEW + 1])
def test_a_copy_is_whole_again_whatever_was_done_to_it(count: int, tmp_path: Path) -> None:
    whole = Image(("below",), {**image(*[100] * count).files, "below/file": b"text"})

    def files() -> dict[str, bytes]:
        found = [path for path in copy.folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(copy.folder)): path.read_bytes() for path in found}

    copy = Copy(whole, tmp_path / "copy")
    for change in (
        lambda: (copy.folder / "file1").write_bytes(b"changed"),
        lambda: (copy.folder / "new").write_bytes(b"new"),
        (tmp_path / "copy/below/file").unlink,
        lambda: (copy.folder / "file2").rename(copy.folder / "file1"),
    ):
        damage = Damage({"file0": b"damaged"}, "")
        copy.damage(damage)
        assert files() == {**whole.files, "file0": b"damaged"}
        change()
        copy.restore(damage)
        assert files() == whole.files


def test_writes_insert_then_update_and_remove_what_is_there() -> None:
    live: set[bytes] = set()
    for stage in rot.writes(1):
        for method, key, value in stage:
            assert (key in live) == (method != "insert")
            assert bool(value) == (method != "remove")
            (live.discard if method == "remove" else live.add)(key)
    assert len(live) == rot.RECORDS
    assert list(rot.writes(1)) == list(rot.writes(1)) != list(rot.writes(2))


def first_noticed(subject: rot.Subject, folder: Path) -> tuple[Damage, rot.Verdict]:
    """The first damage that is not harmless."""
    copy = Copy(subject.image, folder)
    found = (subject.damaged(copy, "bit", number) for number in range(100))
    return next(pair for pair in found if pair[1].outcome != "harmless")


@pytest.mark.parametrize("outcome", NOTICED)
def test_an_outcome_is_what_the_store_makes_of_a_damage(
    summing: Build, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rot, "LIMIT", 3.0)
    store = summing(f"notices-{outcome}", NOTICED[outcome])
    subject = rot.make(store, "default", 1, tmp_path)
    _, verdict = first_noticed(subject, tmp_path / "copy")
    assert verdict.outcome == outcome
    assert not verdict.stale
    if outcome in ("wrong", "missing"):
        ((call, _, value, known, older),) = verdict.wrong + verdict.missing
        assert (call, known, older) == ("get", True, False)
        assert (value is None) == (outcome == "missing")
    else:
        said = {"crash": "signal SIGSEGV", "hang": "hangs", "reported": "damaged"}
        assert verdict.said == said[outcome]
    assert subject.read(tmp_path / "copy").outcome == "harmless"  # the copy is whole again


def test_a_wrong_value_counts_even_if_the_store_then_crashes(
    summing: Build, tmp_path: Path
) -> None:
    subject = rot.make(summing("keeps", ""), "default", 1, tmp_path)
    ends = "static int my_close(struct kv *kv) { (void)kv; return raise(SIGSEGV); }"
    subject.store = summing("crashes", "", ends, "close")
    assert subject.read(Copy(subject.image, tmp_path / "whole").folder).outcome == "crash"
    copy = Copy(subject.image, tmp_path / "copy")
    verdicts = (subject.damaged(copy, "bit", number)[1] for number in range(100))
    verdict = next(verdict for verdict in verdicts if verdict.wrong)
    assert (verdict.outcome, verdict.said) == ("wrong", "signal SIGSEGV")


def rows(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    with path.open() as file:
        return {(row["store"], row["checks"], row["damage"]): row for row in csv.DictReader(file)}


@pytest.mark.check
def test_checksums_of_pages_turn_wrong_values_into_errors(kvbench: Run, tmp_path: Path) -> None:
    out, name = tmp_path / "rot.csv", "sqlite/apsw"
    if not KNOWN[name].available:
        pytest.skip(KNOWN[name].reason)
    ended = kvbench("rot", name, "--damages", 10, "--out", out, "--place", tmp_path)
    assert ended.returncode == 0, ended.stderr
    found = rows(out)
    assert found.keys() == {(name, checks, kind) for checks in ("default", "on") for kind in KINDS}
    assert int(found[name, "default", "bit"]["wrong"]) >= 3
    assert int(found[name, "on", "bit"]["wrong"]) == 0
    assert int(found[name, "on", "bit"]["reported"]) >= 3
    for row in found.values():
        assert sum(int(row[outcome]) for outcome in rot.OUTCOMES) == int(row["damages"])
        for outcome in rot.BAD:
            assert (row[f"first_{outcome}"] == "") == (row[outcome] == "0")
    assert {path.name for path in tmp_path.iterdir()} <= {"rot.csv", "shims"}

    first = found[name, "default", "bit"]["first_wrong"]
    again = kvbench("rot", name, "--checks", "default", "--replay", f"bit {first}")
    assert again.returncode == 0, again.stderr
    for text in ("outcome: wrong", "is flipped", "returns a value that was never written"):
        assert text in again.stdout


@pytest.mark.check
@pytest.mark.parametrize("name", ["leveldb", "bdb", "wiredtiger-btree"])
def test_a_store_with_checks_returns_no_flipped_bit(
    kvbench: Run, name: str, tmp_path: Path
) -> None:
    """By the command: this process may have opened the store, whose threads do not survive the fork
    of a reader."""
    if not KNOWN[name].available:
        pytest.skip(KNOWN[name].reason)
    out = tmp_path / "rot.csv"
    ended = kvbench("rot", name, "--checks", "on", "--damages", 20, "--out", out)
    assert ended.returncode == 0, ended.stderr
    row = rows(out)[name, "on", "bit"]
    assert row["wrong"] == row["stale"]
    assert int(row["reported"]) > 0


def test_the_kind_and_number_of_a_damage_are_read() -> None:
    assert parse("exchanged 12") == ("exchanged", 12)


@pytest.mark.check
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["flat"], "--out: is missing"),
        (["flat", "--replay", "bits 1"], "'bits 1' is no damage; allowed: one of bit,"),
        (["flat", "--replay", "bit -1"], "'bit -1' is no damage"),
        (["flat", "sqlite", "--replay", "bit 1"], "--replay: one STORE"),
        (["flat", "--replay", "older 100000"], "older 100000: the store has"),
        (["flat", "--checks", "on", "--out", "OUT"], "no store is left to damage"),
    ],
)
def test_bad_input_is_one_line(
    kvbench: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    out = str(tmp_path / "out.csv")
    ended = kvbench("rot", *[out if text == "OUT" else text for text in arguments])
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
