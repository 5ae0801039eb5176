"""Plans: their keys, their values and the number of live records."""

import ctypes
import dataclasses
import functools
import io
import itertools
import json
import os
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kvbench.cell.factors import KEY_ORDER, OPERATIONS, Cell, RecordSize
from kvbench.cell.histogram import Histogram
from kvbench.cell.library import address, loop_library
from kvbench.cell.loop import ShimLoop
from kvbench.cell.phase import Phases
from kvbench.cell.plan import SAMPLES, TRIED, Plan, Records, make_pool
from kvbench.cell.store import Store
from kvbench.cell.workload import CHURN_SHARES, YCSB

CELL = Cell(
    store="flat",
    binding="",
    record_size=RecordSize(100, 1000),
    records=1000,
    compressibility="incompressible",
    operations=OPERATIONS,
    trial=1,
    seed=1,
)
SKEW = 0.99  # of the zipfian order
MIB = 1 << 20


def sized(records: int, **levels: Any) -> Cell:
    return dataclasses.replace(CELL, records=records, **levels)


def steps(workload: str, records: int) -> Records:
    return Records(sized(records, workload=workload))


def numbers(records: Records, plan: Plan) -> npt.NDArray[np.int64]:
    return np.array([number for _, number, *_ in records.taken(plan)])


def versions(records: Records, plan: Plan) -> dict[int, int]:
    return {number: version for _, number, version, _ in records.taken(plan)}


def make_keys(numbers: npt.NDArray[np.uint64], stride: int, size: int = 16) -> list[bytes]:
    """The keys of the numbers, each of `size` bytes."""
    room = max(16, -(-size // 8) * 8)  # records_key_room
    keys = (ctypes.c_char * room * len(numbers))()
    each, count = loop_library().records_key_each, ctypes.c_size_t(len(numbers))
    each(count, address(numbers), ctypes.c_uint64(stride), ctypes.c_size_t(size), keys)
    return [key.raw[:size] for key in keys]


@functools.cache
def pool(largest: int) -> npt.NDArray[np.uint8]:
    return make_pool("incompressible", largest, 1)


def valued(record_size: str) -> Records:
    """Records whose values C can make."""
    records = Records(sized(100, record_size=RecordSize.parse(record_size)))
    records.values.pool = pool(records.size.high).ctypes.data
    return records


def value(records: Records, number: int, version: int) -> bytes:
    found = ctypes.create_string_buffer(records.size.high)
    make = loop_library().records_value
    size = make(ctypes.byref(records.values), ctypes.c_uint64(number), version, found)
    return found.raw[:size]


def passes(records: Records, number: int, version: int, found: bytes) -> bool:
    """Whether the check of a get takes these bytes for the value."""
    check = loop_library().records_is_value
    check.restype = ctypes.c_bool
    named = ctypes.byref(records.values), ctypes.c_uint64(number), version
    return bool(check(*named, found, ctypes.c_size_t(len(found))))


@pytest.mark.parametrize("key_order", KEY_ORDER)
@pytest.mark.parametrize("count", [1, 2, 10, 100, 1000, 12345])
def test_rounds_match_a_dict(count: int, key_order: str) -> None:
    """Every operation is valid, and a get is expected to return the value written last."""
    records = Records(sized(count, key_order=key_order))
    model = versions(records, records.live("insert"))
    assert len(model) == count
    written = dict(model)
    for operation in OPERATIONS * 12:
        burst = list(records.taken(records.burst(operation, records.churn)))
        assert len(burst) == records.churn
        for name, number, version, length in burst:
            assert (name, length) == (operation, 1)
            assert (number in model) == (operation != "insert")
            if operation == "remove":
                del model[number]
            elif operation == "get":
                assert model[number] == version
            else:
                assert written.get(number) != version
                model[number] = written[number] = version
        assert abs(len(model) - count) <= max(1, count / 10)
    assert versions(records, records.live("get")) == model
    inserted, *others = (versions(records, plan) for plan in records.refused())
    assert set(inserted) <= set(model)
    assert len(inserted) >= min(count, TRIED) / 2
    for plan in others:
        assert len(plan) == records.churn
        assert not set(plan) & set(model)
    assert versions(records, records.live("get")) == model  # refused operations change nothing


def test_live_records_are_in_key_order_with_their_sizes() -> None:
    records = Records(sized(10_000))
    live = numbers(records, records.live("insert"))
    assert len(live) == 10_000
    assert (np.diff(live) > 0).all()
    assert (numbers(records, records.live("get", backward=True)) == live[::-1]).all()
    size = loop_library().records_size
    sizes = [size(ctypes.byref(records.values), ctypes.c_uint64(number), 0) for number in live]
    assert 100 <= min(sizes) < 110 and 990 < max(sizes) <= 1000
    assert records.total() == {"live_records": 10_000, "live_bytes": sum(sizes) + 16 * 10_000}


def test_the_value_of_a_version_never_changes() -> None:
    """The committed data depend on these rules, which only records.c has."""
    records, offset, size = valued("100-1000 B"), ctypes.c_uint64(), ctypes.c_uint32()
    slice_, found = loop_library().records_slice, []
    for number, version in ((0, 0), (1, 5), (999, 127)):
        where = ctypes.byref(offset), ctypes.byref(size)
        slice_(ctypes.byref(records.values), ctypes.c_uint64(number), version, *where)
        made = value(records, number, version)
        body = pool(1000)[offset.value : offset.value + size.value - 4].tobytes()
        assert made[:-4] == body
        found.append((offset.value, size.value, made[-4:].hex()))
    assert found == [
        (4532365, 727, "7264c712"),
        (5433499, 439, "4bc920af"),
        (3109248, 593, "a303f038"),
    ]
    keys = make_keys(np.array([0, 1, 999], np.uint64), (2**64 - 1) // 1100)
    assert keys[1].hex() == "003b9403b9403b94910a2dec89025cc1"
    assert keys[2].hex() == "e87e9a87e9a87e8c68925370be18119c"
    mix = loop_library().records_mix
    mix.restype = ctypes.c_uint64
    assert [mix(ctypes.c_uint64(x)) for x in (0, 1)] == [16294208416658607535, 10451216379200822465]


@pytest.mark.parametrize("size", [8, 10, 16, 17, 24, 40, 63, 64])
def test_keys_of_every_size_are_ordered_and_do_not_compress(size: int) -> None:
    """A longer key begins with the shorter one of its number."""
    count = 4000
    numbers, stride = np.arange(count, dtype=np.uint64), (2**64 - 1) // count
    keys, longest = (make_keys(numbers, stride, n) for n in (size, 64))
    assert [key[:size] for key in longest] == keys
    assert keys == sorted(set(keys)) and len(keys) == count
    mixed = b"".join(key[8:] for key in keys)
    assert len(zlib.compress(mixed, 9)) >= len(mixed)


SIZES = (1, 3, 4, 5, 8, 100, 4096)


@pytest.mark.parametrize("size", SIZES)
def test_no_value_with_a_flipped_bit_passes(size: int) -> None:
    records = valued(f"{size} B")
    right = value(records, 7, 3)
    assert passes(records, 7, 3, right)
    for bit in range(8 * size):
        wrong = bytearray(right)
        wrong[bit // 8] ^= 1 << bit % 8
        assert not passes(records, 7, 3, bytes(wrong)), bit


@pytest.mark.parametrize("size", SIZES)
def test_no_other_value_passes(size: int) -> None:
    """Of another record or version; or shorter or longer, by whatever bytes."""
    records = valued(f"{size} B")
    right = value(records, 7, 3)
    others = [value(records, number, 3) for number in range(300) if number != 7]
    others += [value(records, 7, version) for version in range(128) if version != 3]
    assert len(set(others)) > 100
    for other in set(others) - {right}:
        assert not passes(records, 7, 3, other)
    for longer in (right + b"\0", right + right[-1:], right * 2):
        assert not passes(records, 7, 3, longer)
    for length in {0, 1, size // 2, size - 4, size - 1} & set(range(size)):
        assert not passes(records, 7, 3, right[:length])
        assert not passes(records, 7, 3, right[size - length :])


def test_versions_come_around() -> None:
    """A record has 128 versions; the one after them is the first again."""
    records = Records(sized(1, workload="overwrite"))
    for i in range(300):
        assert versions(records, records.shuffled("update", 1)) == {0: (i + 1) % 128}
        assert versions(records, records.live("get")) == {0: (i + 1) % 128}


def test_a_sequence_goes_upwards_and_around() -> None:
    records = Records(sized(250, key_order="sequential"))
    found: dict[str, list[int]] = {}
    for operation in OPERATIONS * (SAMPLES // records.churn):
        burst = numbers(records, records.burst(operation, records.churn))
        assert (np.diff(burst) > 0).sum() >= len(burst) - 2
        found.setdefault(operation, []).extend(burst.tolist())
    for operation in ("get", "update", "remove"):
        falls = (np.diff(found[operation]) < 0).sum()
        assert falls == pytest.approx(SAMPLES / 250, abs=1)  # one pass through all each time
        assert len(set(found[operation])) >= 250


def test_the_zipfian_order_is_skewed_as_specified() -> None:
    count, drawn = 1000, 200_000
    records = steps("readrandom", count)
    found = Counter(numbers(records, records.drawn("get", drawn, "zipfian")).tolist())
    assert set(found) <= set(range(count))
    weights = np.arange(1, count + 1) ** -SKEW
    by_popularity = sorted(found.values(), reverse=True)
    for rank in (0, 1, 2, 9, 99):
        expected = weights[rank] / weights.sum()
        assert by_popularity[rank] / drawn == pytest.approx(expected, rel=0.1)
    one = steps("readrandom", 1)
    assert numbers(one, one.drawn("get", 5, "zipfian")).tolist() == [0] * 5


@pytest.mark.parametrize("count", [2, 3, 10, 1100, 10**9])
def test_popular_records_are_scattered(count: int) -> None:
    records = steps("readrandom", count)
    found = Counter(numbers(records, records.drawn("get", 10_000, "zipfian")).tolist())
    assert count > 10 or len(found) == count
    popular = [number for number, _ in found.most_common(10)]
    assert max(popular) - min(popular) >= min(count - 1, count // 2)


def test_gets_in_zipfian_order_repeat_popular_records() -> None:
    records = Records(sized(10_000, key_order="zipfian"))
    found = Counter(numbers(records, records.burst("get", 1000)).tolist())
    ((_, most),) = found.most_common(1)
    assert 60 < most < 140  # 1 in 9.8 of all is expected
    assert len(found) < 700


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 100, 4096, 70_000])
def test_a_shuffled_plan_visits_every_record_once(count: int) -> None:
    records = steps("overwrite, overwrite", count)
    first = numbers(records, records.shuffled("update", count))
    assert sorted(first) == list(range(count))
    if count > 1000:
        assert abs(np.corrcoef(first, np.arange(count))[0, 1]) < 0.05
        assert (numbers(records, records.shuffled("update", count)) != first).any()


def test_live_records_follow_from_the_steps() -> None:
    """The records of `live`, and their versions, are those that the steps leave."""
    records = steps("fillseq, overwrite ops=700, overwrite, deleterandom ops=400, readrandom", 1000)
    model = versions(records, records.live("insert"))
    for ops in (700, 1000):
        overwritten = versions(records, records.shuffled("update", ops))
        assert len(overwritten) == ops
        assert all(version == model[number] + 1 for number, version in overwritten.items())
        model |= overwritten
    removed = versions(records, records.shuffled("remove", 400))
    assert len(removed) == 400
    live = versions(records, records.live("get"))
    assert live == {n: v for n, v in model.items() if n not in removed}
    assert list(live) == sorted(live)
    _, missing, *_ = records.refused()
    assert set(numbers(records, missing)) == set(removed)
    assert set(numbers(records, records.drawn("get", 10_000))) == set(live)


@pytest.mark.parametrize("name", YCSB)
def test_mixes_have_the_specified_shares(name: str) -> None:
    records = steps(f"{name} ops=20000", 10_000)
    done = list(records.taken(records.mixed(records.steps[0])))
    wanted = dict(YCSB[name])
    if both := wanted.pop("read-modify-write", 0):  # two operations each
        wanted = {"get": 1 / (1 + both), "update": both / (1 + both)}
    for kind, share in wanted.items():
        assert np.mean([row[0] == kind for row in done]) == pytest.approx(share, abs=0.02)
    assert all(1 <= length <= 100 for kind, _, _, length in done if kind == "scan")
    assert all(number + length <= records.universe for _, number, _, length in done)
    gets = Counter(number for kind, number, *_ in done if kind == "get")
    if gets and name != "ycsb-d":
        assert max(gets.values()) > 0.05 * gets.total()  # the most popular one
    if name == "ycsb-d":
        assert np.median(list(gets.elements())) > 0.9 * records.c.born  # the newest ones


def test_a_mix_matches_a_dict() -> None:
    """Its gets expect the value written last, and its inserts have new keys."""
    for name in YCSB:
        records = steps(f"{name} ops=3000", 100)
        model = versions(records, records.live("insert"))
        before = ("", -1)
        for kind, number, version, _ in records.taken(records.mixed(records.steps[0])):
            if kind == "insert":
                assert (number, version) == (max(model) + 1, 0)
                model[number] = version
            elif kind == "update":
                assert version == (model[number] + 1) % 128
                assert name != "ycsb-f" or before == ("get", number)
                model[number] = version
            else:
                assert version == model[number]
            before = (kind, number)
        assert versions(records, records.live("get")) == model


@pytest.mark.parametrize("count", [1, 9, 10, 2000])
def test_churn_matches_a_dict_and_keeps_the_number_of_live_records(count: int) -> None:
    records = steps("churn times=20", count)
    plan = records.churned(records.steps[0])
    live, dead, done = dict.fromkeys(range(count), 0), dict[int, int](), Counter[str]()
    for operation, number, version, _ in records.taken(plan):
        done[operation] += 1
        if operation == "insert":
            live[number] = dead.pop(number) + 1
            assert version == live[number] % 128
        elif operation == "remove":
            dead[number] = live.pop(number)
        else:
            live[number] += 1
            assert version == live[number] % 128
        assert len(dead) <= count // 10
    written = (done["update"] + done["insert"]) / count
    assert written >= 20 * 0.97
    assert versions(records, records.live("get")) == {n: v % 128 for n, v in live.items()}
    if count >= 1000:
        for name, share in CHURN_SHARES.items():
            assert done[name] / done.total() == pytest.approx(share, rel=0.05)
        assert len(live) > 0.9 * count


def test_a_trial_has_its_own_plan_and_all_stores_share_it() -> None:
    def first(**levels: Any) -> list[tuple[Any, ...]]:
        records = Records(sized(1000, **levels))
        rounds = (records.taken(records.burst(name, 50)) for name in OPERATIONS)
        sizes = [loop_library().records_size(ctypes.byref(records.values), n, 0) for n in range(9)]
        return [*itertools.chain(*rounds), tuple(sizes)]

    assert first() == first(store="lmdb")
    assert first() != first(trial=2)
    assert first() != first(seed=2)
    assert first()[-1] != first(seed=2)[-1]


def resident() -> int:
    """Bytes without pages of files, which a kernel may take away and give back meanwhile."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def test_a_plan_over_a_billion_records_takes_constant_memory(tmp_path: Path) -> None:
    """What is filled, read, overwritten at its end and read by popularity is planned as it runs."""
    records = steps("fillrandom, readrandom", 10**9)
    loop = ShimLoop(Store("null"), records, pool(1000))
    loop.open(tmp_path, {})
    before = resident()
    assert loop.load(records.shuffled("insert", 10**6), 1).items == 10**6
    for order in ("uniform", "zipfian"):
        assert loop.run(records.drawn("get", 10**6, order))[""].items == 10**6
    assert resident() - before < 4 * MIB
    loop.close()


def checked(records: Records) -> str:
    """All that the check of a store asks of the records."""
    live = list(records.taken(records.live("get")))
    refused = [list(records.taken(plan)) for plan in records.refused()]
    return json.dumps([live, records.total(), refused])


@pytest.mark.parametrize(
    "workload",
    ["rounds", "fillseq, overwrite ops=20000, deleterandom ops=5000", "ycsb-d", "ycsb-e"],
)
def test_a_process_forked_earlier_takes_over_what_became_of_the_records(
    workload: str, tmp_path: Path
) -> None:
    records, (below, to) = steps(workload, 30_000), os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(to)
            with os.fdopen(below, "rb") as told:
                records.restore(told)
            (tmp_path / "checked").write_text(checked(records))
        finally:
            os._exit(0)
    os.close(below)
    plans = {
        "overwrite": lambda step: records.shuffled("update", records.ops(step)),
        "deleterandom": lambda step: records.shuffled("remove", records.ops(step)),
    }
    for step in records.steps:
        plan = plans.get(step.name, lambda _: records.live("insert"))
        list(records.taken(records.mixed(step) if step.name in YCSB else plan(step)))
    for operation in OPERATIONS * 3 if not records.steps else ():
        list(records.taken(records.burst(operation, records.churn)))
    with os.fdopen(to, "wb") as told:
        records.save(told)
    os.waitpid(child, 0)
    assert (tmp_path / "checked").read_text() == checked(records)


def test_records_of_a_process_that_is_gone_are_not_taken_over() -> None:
    with pytest.raises(OSError, match="the process that measures is gone"):
        steps("fillseq", 10).restore(io.BytesIO(b"half"))


def test_histogram_is_within_one_per_cent() -> None:
    times = np.random.default_rng(1).lognormal(10, 2, 100_000).astype(np.uint64)
    histogram = Histogram()
    for part in np.array_split(times, 7):
        histogram.add(part)
    histogram.add(np.array([], np.uint64))
    assert (histogram.n, histogram.sum) == (len(times), int(times.sum()))
    assert (histogram.min, histogram.max) == (times.min(), times.max())
    for share in (0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1):
        exact = float(np.quantile(times, share, method="inverted_cdf"))
        assert histogram.quantile(share) == pytest.approx(exact, rel=0.01)
    bins, counts = histogram.sparse()
    assert sum(counts) == histogram.n
    assert len(bins) == len(counts)


def test_histogram_of_the_least_times() -> None:
    histogram = Histogram()
    histogram.add(np.array([0, 1, 2], np.uint64))
    assert (histogram.min, histogram.max, histogram.sum) == (0, 2, 3)
    assert histogram.quantile(1) == pytest.approx(2, rel=0.01)


def test_c_counts_times_as_python_does() -> None:
    """A tally of C has the same bins, within one at their edges, and the exact numbers."""
    times = np.random.default_rng(1).lognormal(8, 2, 10_000).astype(np.uint64)
    own, phases = Histogram(), Phases(2)
    own.add(times)
    for i, time in enumerate(times.tolist()):
        tally = ctypes.byref(phases.c[i % 2].tally)
        loop_library().tally_add(tally, ctypes.c_uint64(0), ctypes.c_uint64(time))
    loop_library().tally_merge(*(ctypes.byref(phases.c[i].tally) for i in range(2)))
    found = phases.phase(0, None).latency
    assert (found.n, found.sum, found.min, found.max) == (own.n, own.sum, own.min, own.max)
    assert found.quantile(0.5) == pytest.approx(own.quantile(0.5), rel=0.001)
    assert (found.counts[: len(own.counts)] == own.counts).mean() > 0.99
