from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from stoker.model.record import PHASES
from stoker.report import live, markdown, text
from stoker.report.columns import fit, pad, wrap
from stoker.report.escape import printable
from stoker.report.figures import counted, duration, rate, signal_name, size
from stoker.report.page import (
    Bar,
    Bars,
    Facts,
    NextCommand,
    Notes,
    Page,
    Segment,
    Sentence,
    Stack,
    Table,
    Tone,
)
from stoker.report.stacked import shared_cells

ODD = ["x" * 300, "訓練" * 60, "a b " * 80, "\x1b[31m\n\t[red]", "", "é\u0301" * 50]


def page(word: str) -> Page:
    return Page(
        word,
        "exit 0",
        (
            Sentence(word),
            Facts((("label", word), ("", word))),
            Bars("heading", (Bar("data", 50.0, word, waiting=True), Bar("x", 130.0), Bar("y", -3.0))),
            Stack(word, (Segment(word, 60.0, word, Tone.GOOD), Segment("b", 40.0, "", Tone.LOST))),
            Table(word[:60], ("a", "b", "c"), ((word, "1", word),), frozenset({1})),
            Notes("", (word, word)),
            NextCommand("stoker why", word),
        ),
    )


@pytest.mark.parametrize("word", ODD)
def test_every_line_fits_eighty_columns(word: str) -> None:
    for line in text.plain(page(word)).splitlines():
        assert cell_len(line) <= 80, line


def test_colour_only_on_a_terminal() -> None:
    stream = io.StringIO()
    text.show(page("[bold]x[/bold] :smile:"), stream)
    assert "\x1b" not in stream.getvalue()
    assert "[bold]x[/bold] :smile:" in stream.getvalue()


def test_bars_share_one_scale() -> None:
    assert [len(text.bar(pct)) for pct in (0, 50, 100, 250, -1)] == [0, 12, 24, 24, 0]


def parts(*shares: float) -> list[Segment]:
    return [Segment("x", share, "", Tone.LOST) for share in shares]


@pytest.mark.parametrize(
    ("shares", "cells"),
    [
        ((100.0,), [20]),
        ((50.0, 50.0), [10, 10]),
        ((33.4, 33.3, 33.3), [7, 7, 6]),
        ((98.0, 1.9, 0.1), [19, 1, 0]),
        ((96.0, 2.0, 2.0), [18, 1, 1]),
        ((0.0, 0.0), [0, 0]),
        ((-5.0, 10.0), [0, 20]),
    ],
)
def test_the_cells_of_a_stack_are_shared_out(shares: tuple[float, ...], cells: list[int]) -> None:
    found = shared_cells(parts(*shares), 20)
    assert sum(found) in (0, 20)
    assert found == cells


def test_each_part_of_a_stack_can_be_told_without_colour() -> None:
    tones = [Tone.GOOD, Tone.FAIR, Tone.LOST, Tone.LOST, Tone.INFERRED, Tone.UNKNOWN]
    block = Stack("h", tuple(Segment(tone.value, 100 / 6, "", tone) for tone in tones))
    _, bar, *legend = text.plain(Page("t", "s", (block,))).splitlines()[2:]
    assert len(bar) == 78
    signs = [line.split()[0] for line in legend]
    assert signs == ["█", "▓", "a", "b", "░", "·"]
    assert all(sign in bar for sign in signs)


@pytest.mark.parametrize("word", ODD)
def test_markdown_stays_one_document(word: str) -> None:
    shown = markdown.render(page(word))
    assert [line for line in shown.splitlines() if line.startswith("# ")] == shown.splitlines()[:1]
    for line in shown.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
            assert "\x1b" not in line


def test_markdown_is_escaped() -> None:
    shown = markdown.render(page("a | b `c` <script> [x](http://y) & # *z*"))
    assert r"a \| b \`c\` \<script\> \[x\](http://y) &amp; \# \*z\*" in shown
    assert markdown.render(Page("t", "", (NextCommand("echo `x` ``y``"),))).endswith(
        "Next: ``` echo `x` ``y`` ```\n"
    )


def test_control_characters_are_shown() -> None:
    assert printable("a\x1b[0m\n\x9b\u202e\udcff") == "a\\x1b[0m\\x0a\\x9b\\x202e\ufffd"


def test_columns() -> None:
    assert fit("訓練訓練", 5) == "訓練…"
    assert fit("short", 5) == "short"
    assert pad("訓", 4) == "訓  "
    assert pad("ab", 4, right=True) == "  ab"
    assert wrap("訓練 and more", 12, "- ", "  ") == ["- 訓練 and", "  more"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0000012, "1 µs"),
        (0.0123, "12.3 ms"),
        (3.25, "3.2 s"),
        (119.4, "119.4 s"),
        (150, "2 min 30 s"),
        (3600 * 5 + 61, "5 h 01 min"),
        (3600 * 49, "2 d 1 h"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_other_figures() -> None:
    assert [size(n) for n in (0, 999, 34_200, 2.4e9, 3e15)] == [
        "0 B",
        "999 B",
        "34.2 kB",
        "2.4 GB",
        "3e+03 TB",
    ]
    assert [rate(n) for n in (0.1234, 99.94, 1234.5)] == ["0.123", "99.9", "1,234"]
    assert [counted(n, "run") for n in (0, 1, 2, 0.125, 2048)] == [
        "0 runs", "1 run", "2 runs", "0.125 runs", "2,048 runs",
    ]  # fmt: skip
    assert (signal_name(9), signal_name(99)) == ("SIGKILL", "signal 99")


def row(t: float, ticks: int, **phases: float) -> str:
    values = [phases.get(name, 0.0) for name in PHASES]
    return json.dumps({"t": t, "s": values, "ticks": ticks, "k": "second"}, separators=(",", ":"))


def test_the_live_line(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    assert live.status(tmp_path, 0.5, None) == "stoker: 500 ms · no tick yet"
    path = inside / "12-0.jsonl"
    path.write_text('{"k":"header"}\n' + row(1.0, 40) + "\n")
    assert live.status(tmp_path, 2.0, 90.0) == "stoker: 2.0 s of 90.0 s · 40 ticks"
    with path.open("a") as handle:
        handle.write(row(3.0, 60, data=1.5, forward=0.5) + "\n" + '{"torn')
    shown = "stoker: 4.0 s · 60 ticks · 10/s · data 75 % · forward 25 % · "
    assert live.status(tmp_path, 4.0, None).startswith(shown)


def test_the_live_line_of_a_long_run_reads_only_the_end(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    rows = "".join(row(float(second), 10 * second, other=second / 2) + "\n" for second in range(3000))
    (tmp_path / "inside" / "12-0.jsonl").write_text(rows)
    assert "29,990 ticks · 10/s · other 50 %" in live.status(tmp_path, 3000.0, None)
