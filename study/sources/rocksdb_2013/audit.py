"""RocksDB's benchmarks, 2013: where the figures and commands of the page contradict each other."""

from collections.abc import Iterator

from study.sources import published
from study.sources.findings import GI, KI, MI, Found, Range, rounded

TEXT = "rocksdb-2013"


def figure(section: str, store: str, quantity: str) -> str:
    table = published.printed("rocksdb-2013").set_index(["section", "store", "quantity"]).value
    return str(table[section, store, quantity])


def of_figures() -> Iterator[Found]:
    """Check the figures. Sizes are taken as GiB and rates as MiB/s wherever these units agree
    better."""
    record = int(figure("1", "", "key")) + int(figure("1", "", "value"))
    records = int(figure("1", "", "records"))
    loaded = rounded(figure("2", "rocksdb", "size"))
    du = int(figure("2", "rocksdb", "size by du")) * KI
    if not loaded.meets(Range(du / 1e9, du / 1e9)):
        yield Found(
            TEXT, "2", "size", "rocksdb", figure("2", "rocksdb", "size"), f"{du / 1e9:.1f}", "GB"
        )
    if not loaded.times(GI / record).meets(rounded(str(records))):
        kept = f"{du / record:.3g}"
        yield Found(TEXT, "2", "records kept", "rocksdb", str(records), f"{float(kept):.0f}", "1")
    for section, store in (("2", "rocksdb"), ("3", "rocksdb"), ("3", "leveldb")):
        seconds = rounded(figure(section, store, "wall time")).times(60)
        rate = figure(section, store, "throughput")
        size = figure(section, store, "size")
        if not (rounded(size).times(KI) / seconds).meets(rounded(rate)):
            now = f"{float(size) * KI / 60 / float(figure(section, store, 'wall time')):.1f}"
            yield Found(TEXT, section, "size over time", store, rate, now, "MB/s")
        whole = Range(record * records, record * records)
        if section == "3" and not whole.times(1 / GI).meets(rounded(size)):
            yield Found(TEXT, "3", "size", store, size, f"{whole.low / GI:.1f}", "GB")
        fits = any((whole.times(1 / unit) / seconds).meets(rounded(rate)) for unit in (1e6, MI))
        if section == "2" and not fits:
            now = f"{whole.low / MI / 60 / float(figure(section, store, 'wall time')):.0f}"
            yield Found(TEXT, section, "bytes written over time", store, rate, now, "MB/s")
    speed = figure("4", "rocksdb", "operations per second")
    if not rounded(speed).times(record / MI).meets(rounded(figure("4", "rocksdb", "throughput"))):
        stated = figure("4", "rocksdb", "throughput")
        now = f"{int(speed) * record / MI:.2f}"
        yield Found(TEXT, "4", "bytes written over time", "rocksdb", stated, now, "MB/s")
    each = rounded(figure("4", "rocksdb", "time per operation"))
    if not (Range(1e6, 1e6) / each).meets(rounded(speed)):
        yield Found(
            TEXT, "4", "operations per second", "rocksdb", speed, f"{1e6 / each.low}", "op/s"
        )
    wall = int(figure("4", "rocksdb", "wall time")) * 60
    if not each.times(records / 1e6).meets(Range(wall - 30, wall + 60)):
        yield Found(TEXT, "4", "wall time", "rocksdb", f"{wall}", f"{each.low * records}", "s")
    if not figure("4", "leveldb", "wall time"):
        yield Found(TEXT, "4", "missing figure", "leveldb", "", "", "min")


def of_commands() -> Iterator[Found]:
    """Compare the commands with the text, with each other, and each with itself."""
    table = published.printed("rocksdb-2013-settings")
    table = table[table.step == "1"]
    options = table.set_index(["section", "store", "setting"]).value.to_dict()
    for section in ("2", "3", "4"):
        for store in ("rocksdb", "leveldb"):
            cache = options[section, store, "cache_size"]
            if int(cache) != int(figure("1", "rocksdb", "block cache")) * GI:
                yield Found(TEXT, section, "block cache", store, str(GI), cache, "B")
            share = options[section, store, "compression_ratio"]
            if not 0 < float(share) <= 1:
                yield Found(
                    TEXT, section, "compression ratio", store, share, f"{float(share) / 100:g}", "1"
                )
        kind, text = options[section, "rocksdb", "compression_type"], figure("1", "", "compression")
        if kind != text:
            yield Found(TEXT, section, "compression", "rocksdb", text, kind, "")
        first = int(options[section, "rocksdb", "min_level_to_compress"])
        last = int(options[section, "rocksdb", "num_levels"]) - 1
        if first > last:
            yield Found(TEXT, section, "compressed level", "rocksdb", str(first), str(last), "1")
        for option, unit in (("write_buffer_size", "B"), ("block_size", "B"), ("disable_wal", "")):
            ours, theirs = (options.get((section, s, option), "") for s in ("rocksdb", "leveldb"))
            if ours != theirs:
                yield Found(TEXT, section, "unequal setting", option, ours, theirs, unit)


CHECKS = (of_figures, of_commands)
