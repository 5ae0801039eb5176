"""Numbers and tables as text; markup in text from outside has no effect."""

import pandas as pd
import pypandoc
import pytest

from study.common import fields, formats

HOSTILE = "<img src=x onerror=alert(1)>|[link](javascript:x) `code` **bold** $x$ &lt;b&gt;\n# head"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (1, "1.0 ns"),
        (248.4, "248 ns"),
        (999.9, "1.0 µs"),
        (4230, "4.2 µs"),
        (9960, "10 µs"),
        (612_000, "612 µs"),
        (999_600, "1.0 ms"),
        (2.5e9, "2.5 s"),
    ],
)
def test_times_are_shown_with_their_unit(nanoseconds: float, text: str) -> None:
    assert formats.time(nanoseconds) == text


def test_sizes_counts_and_shares_as_text() -> None:
    sizes = {0: "0.0 B", 100: "100 B", 1536: "1.5 KiB", 20 << 20: "20 MiB"}
    assert {n: formats.size(n) for n in sizes} == sizes
    counts = {100: "100", 1000: "1 k", 1500: "1500", 10**6: "1 M"}
    assert {n: formats.count(n) for n in counts} == counts
    shares = {0.026: "2.6%", 0.5: "50%", 1.56: "156%"}
    assert {share: formats.share(share) for share in shares} == shares


def test_the_thousands_of_a_quoted_count_are_apart() -> None:
    texts = {"2246004 KB": "2,246,004 KB", "2400 ops/s": "2400 ops/s", "0.00012": "0.00012"}
    assert {text: formats.apart(text) for text in texts} == texts


def test_markup_in_a_name_has_no_effect() -> None:
    """The name is shown unchanged as a cell, as the name of a column and as the best store."""
    best = pd.DataFrame(
        [
            {
                **{"record_size": "1 KiB", "records": 10, "compressibility": "compressible"},
                **{"store": HOSTILE, "value": 1.0, "among": (HOSTILE,), "undecided": ()},
            }
        ]
    )
    for markdown in (
        formats.table(pd.DataFrame({"store": [HOSTILE], HOSTILE: [1]})),
        fields.best_table({"get: time": (best, formats.time)}, ["1 KiB"]),
    ):
        page = pypandoc.convert_text(markdown, "html", "markdown", ["--wrap=none"])
        for live in ("<img", "<a ", "<code", "<strong", "<span", "<h1", "<b>"):
            assert live not in page
        assert page.count("&lt;img src=x onerror=alert(1)&gt;|[link](javascript:x)") == 2
        assert page.count("**bold** $x$ &amp;lt;b&amp;gt; # head") == 2
        assert page.count("<table") == 1


@pytest.mark.parametrize("options", [{}, {"disable_numparse": True}])
def test_a_table_shows_no_name_of_the_data_and_no_long_number_in_one_piece(
    options: dict[str, bool],
) -> None:
    frame = pd.DataFrame({"record_size": ["1 KiB"], "records": [10_000], "block_cache=1": ["a_b"]})
    head, _, row = formats.table(frame, **options).split("\n")
    assert [name.strip() for name in head.strip("|").split("|")] == [
        "record size", "records", "block_cache=1",
    ]  # fmt: skip
    assert [cell.strip() for cell in row.strip("|").split("|")] == ["1 KiB", "10,000", "a_b"]


def test_columns_of_our_own_markdown_stay_markdown() -> None:
    frame = pd.DataFrame({"store": ["a*b"], "verdict": ["**holds**"]})
    assert r"a\*b" in (said := formats.table(frame, markdown=["verdict"]))
    assert "**holds**" in said


def test_lists_of_names_read_as_sentences_and_stay_short() -> None:
    assert formats.listed(["a"], "or") == "a"
    assert formats.listed(["a", "b", "c"], "and") == "a, b and c"
    assert formats.some("abcde") == "a, b, c, d, e"
    assert formats.some("abcdef") == "a, b, c, d, 2 others"
