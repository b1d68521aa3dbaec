"""Errors and remarks on stderr: wrapped on a terminal, one line each elsewhere, never obeyed."""

from __future__ import annotations

import io
import sys

import pytest

from stoker.commands.stderr import tell, tell_error
from stoker.errors import UsageError

LONG = UsageError(
    "there is no knob called 'num_worker' and nothing that is called so in this command either",
    seen="known, nearest first: num_workers, persistent_workers, pin_memory, prefetch_factor, /a/long/"
    + "p" * 90,
    hint="write it like one of these:\n        flag:--batch-size=64\n        env:OMP_NUM_THREADS=4",
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> list[str]:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "80")
    tell_error(LONG)
    return stream.getvalue().splitlines()


def test_on_a_terminal_lines_end_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, Terminal())
    path = [line for line in lines if "/a/long/" in line]
    assert path == ["        /a/long/" + "p" * 90]  # whole: it may be copied
    assert all(len(line) <= 80 for line in lines if line not in path)
    assert lines[0].startswith("error: there is no knob")
    assert lines[1].startswith("       ")
    assert sum(line.startswith("  seen: known") for line in lines) == 1
    assert lines[-3:] == [
        "  try:  write it like one of these:",
        "        flag:--batch-size=64",
        "        env:OMP_NUM_THREADS=4",
    ]


def test_in_a_file_every_part_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(monkeypatch, io.StringIO())
    assert [line[:7] for line in lines] == [
        "error: ",
        "  seen:",
        "  try: ",
        "        flag"[:7],
        "        env"[:7],
    ]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_control_characters_are_shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    tell("a\x1b[31m b\nc")
    assert stream.getvalue() == "a\\x1b[31m b\\x0ac\n"
