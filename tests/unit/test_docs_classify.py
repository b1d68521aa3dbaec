"""Every example in docs/classify.md is run; every kind it names exists, and none is left out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from stoker.commands import main
from stoker.diagnose import missed
from stoker.diagnose.classes import LIMITS
from stoker.ingest.formats import FORMATS

DOCS = (Path(__file__).parents[2] / "docs" / "classify.md").read_text(encoding="utf-8")


def examples():
    """(command, the lines that must appear in this order); a line of `…` stands for any others."""
    for block in re.findall(r"```console\n(.*?)```", DOCS, re.S):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            yield command, [line for line in shown.split("\n") if line.strip() and line != "…"]


@pytest.mark.parametrize(("command", "lines"), list(examples()))
def test_example(command, lines, recordings, monkeypatch, capsys):
    monkeypatch.chdir(recordings)
    program, *arguments = shlex.split(command)
    assert program == "stoker"
    assert main(arguments) == 0
    output = capsys.readouterr().out.split("\n")
    assert lines
    position = 0
    for line in lines:
        assert line in output[position:], f"{line!r} is not in the output of {command}"
        position += output[position:].index(line) + 1


def test_there_are_examples():
    assert len(list(examples())) >= 7


def test_every_format_is_in_the_list():
    assert all(f"| {known.name} |" in DOCS for known in FORMATS)


def test_the_limits_are_those_of_the_table():
    for figure in (f"{LIMITS.mem_full_frac:.1%}".replace("%", " %"), f"{LIMITS.mem_full_mib:g} MiB",
                   f"at or above {LIMITS.util_high_pct:g} %", f"below {LIMITS.util_low_pct:g} %",
                   f"fewer than {LIMITS.fewest_samples} samples"):  # fmt: skip
        assert figure in DOCS


def test_every_kind_of_observation_is_explained():
    folder = Path(missed.__file__).parent
    kinds = {
        kind
        for path in folder.glob("*.py")
        for kind in re.findall(r'Observation\(\s*"([a-z-]+)"', path.read_text())
    }
    assert len(kinds) >= 13
    assert all(f"`{kind}`" in DOCS for kind in kinds)
