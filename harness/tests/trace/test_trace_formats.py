"""Traces of other programs become the same question, and what is none is refused."""

import json
from pathlib import Path

import pytest
from kvbench.trace.asked import asked
from kvbench.trace.format import MAGIC
from kvbench.trace.formats import read_any
from support import Run

# By hand, in the form of each program: two inserts, an update, three gets (one of a key that is not
# there), a remove.
FOLDER = Path(__file__).parent / "samples"
SAMPLES = {"csv": "trace.csv", "rocksdb": "rocksdb.txt", "twitter": "twitter.csv"}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_the_same_question(name: str) -> None:
    found = asked(read_any(FOLDER / SAMPLES[name]))
    assert found.operations == {
        "insert": 2, "update": 1, "get": 3, "remove": 1, "scan": 0, "other": 0,
    }  # fmt: skip
    assert found.size == 250  # a has 200 at last, b had 300
    assert found.batch == 1
    if name != "rocksdb":  # whose gets state no size, and not whether the key was there
        assert found.missed == pytest.approx(1 / 3)
        assert found.records == 2
        assert found.threads == 2
    assert found.seconds == {"csv": 40e-6, "rocksdb": 40e-6, "twitter": 4}[name]


def test_it_is_shown(kvbench: Run) -> None:
    path = FOLDER / "trace.csv"
    done = kvbench("trace", path)
    assert done.returncode == 0, done.stderr
    assert "3 get" in done.stdout and "250 B on average" in done.stdout
    told = json.loads(kvbench("trace", path, "--json").stdout)
    assert told["asked"]["records"] == 2
    assert told["stores"] == [{"library": "", "operations": 7}]


BAD = {
    "": "is no trace",
    "\n": "is no trace",
    "hello world\n": "column 'hello world' is unknown",
    "operation\nget\n": "no column key",
    "operation,key,speed\nget,a,1\n": "column 'speed' is unknown",
    "operation,key\nget,a\nfly,a\n": "row 2: operation 'fly' is unknown",
    "operation,key,value_size\nput,a,-1\n": "row 1: value_size: '-1'",
    "operation,key,value_size\nput,a,nan\n": "row 1: value_size: 'nan'",
    "operation,key,found\nget,a,yes\n": "row 1: found: 'yes'",
    "operation,key\n": "no operation",
    "operation,key\nscan,a\n": "no get, put or remove",
    "0x61 99 0 1 1\n": "operation '99' is unknown",
    '{"kvbench trace": 99}\n': "version 99",
    '{"kvbench trace": [1]}\n': "version [1]",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_no_trace_is_refused_in_a_line(text: str, kvbench: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    for command in (["trace", path], ["advise", "--trace", path]):
        done = kvbench(*command)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("kvbench: ")
        assert BAD[text] in done.stderr


def test_a_torn_end_is_left_out_and_nonsense_refused(kvbench: Run, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(MAGIC + b"\x00" * 17)
    done = kvbench("trace", path)
    assert done.returncode == 2 and "no operation" in done.stderr
    path.write_bytes(MAGIC + b"\xff" * 36)
    done = kvbench("trace", path)
    assert done.returncode == 2 and "row 1 has the operation 255" in done.stderr


def test_a_missing_file_is_refused(kvbench: Run, tmp_path: Path) -> None:
    done = kvbench("trace", tmp_path / "none")
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [0, -1, 2, 99])
def test_a_store_that_is_not_there_is_refused(number: int, kvbench: Run) -> None:
    done = kvbench("trace", FOLDER / "trace.csv", "--trace-store", str(number))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
