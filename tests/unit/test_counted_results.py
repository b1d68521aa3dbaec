"""What is counted from what is there: of which code it is, verdicts told twice, ticks around a window."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FOLDERS = ("accuracy", "overhead", "pathologies")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`script(name)`: scripts are no package, they find each other in their folders."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path, *(str(BENCHMARKS / name) for name in FOLDERS)])
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


def test_the_code_is_told_by_what_python_reads_of_it(script: Any, tmp_path: Path) -> None:
    def code() -> str:
        found: str = script("card").measured_code(tmp_path)
        return found

    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "lead.py").write_text("a = 1\n")
    first = code()
    assert len(first) == 12
    (tmp_path / "notes.md").write_text("of no concern")
    assert code() == first
    (tmp_path / "inside" / "lead.py").rename(tmp_path / "lead.py")
    assert code() != first, "elsewhere it is other code"
    (tmp_path / "lead.py").rename(tmp_path / "inside" / "lead.py")
    assert code() == first
    (tmp_path / "inside" / "lead.py").write_text("a = 2\n")
    assert code() != first


def test_results_say_of_which_code_they_are(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / "pathologies" / "run.py")])
    assert script("watched").machine()["code"] == script("card").measured_code()


def row(
    name: str, gpm: bool | None, codes: list[str], expected: str = "SK409", **more: Any
) -> dict[str, Any]:
    told = {"outcome": "causes" if codes else "healthy", "codes": codes, "expected": expected}
    return {"name": name, "half": "third", "dose": 2, "fixed": False, "gpm": gpm, **told, **more}


def test_two_answers_to_one_training_are_set_against_each_other(script: Any, tmp_path: Path) -> None:
    rows = [
        row("same", True, ["SK409", "SK201"]),
        row("same", False, ["SK409"]),
        row("seen without", True, []),
        row("seen without", False, ["SK409"]),
        row("false alarm", False, ["SK502"], expected=""),
        row("false alarm", True, [], expected=""),
        row("nothing to say", True, [], expected="", outcome="cannot tell"),
        row("nothing to say", False, [], expected=""),
        row("neither", True, ["SK402"]),
        row("neither", False, ["SK401"]),
        row("mended", True, [], fixed=True),
        row("mended", False, ["SK409"], fixed=True),
        row("once", True, []),
        row("another dose", True, [], dose=1),
        row("another dose", False, ["SK409"], dose=3),
        row("on a CPU", None, []),
        row("seen without", True, ["SK409"], deep_too=True),
    ]
    path = tmp_path / "lab.json"
    path.write_text(json.dumps({"runs": rows}))
    told_twice = script("same_verdict").told_twice
    assert [(one.gpm["name"], one.same) for one in told_twice(path, True)] == [("seen without", True)]
    found = {one.gpm["name"]: one for one in told_twice(path, False)}
    assert {name: one.same for name, one in found.items()} == {
        "same": True,
        "seen without": False,
        "false alarm": False,
        "nothing to say": False,
        "neither": False,
    }
    assert {name: one.right_side for name, one in found.items()} == {
        "same": "both right",
        "seen without": "right without",
        "false alarm": "right with GPM",
        "nothing to say": "both right",
        "neither": "both wrong",
    }


def test_ticks_on_either_side_of_a_window(script: Any) -> None:
    """Healthy ones at first, then those that count; the stage from 10 to 12 s has no row."""
    ends = [*(n * 0.5 for n in range(1, 11)), *(5 + n for n in range(1, 6)), *(12 + n for n in range(1, 4))]
    lengths = [*[0.5] * 10, *[1.0] * 5, *[1.0] * 3]
    ticks = [SimpleNamespace(end_s=e, duration_s=s) for e, s in zip(ends, lengths, strict=True)]
    before, after = script("deep_before_after").sides(ticks, (10.0, 12.0))
    assert before == [0.5] * 3 + [1.0] * 5
    assert after == [1.0] * 3


@pytest.mark.parametrize(
    ("before", "after", "ratio", "steady"),
    [
        ([0.010, 0.0101] * 20, [0.013, 0.0131] * 20, 1.2985, True),
        ([0.010] * 20 + [0.0104] * 20, [0.010] * 40, 0.9804, False),
        ([0.010] * 40, [0.0104] * 20 + [0.010] * 20, 1.02, False),
        ([0.008, 0.010, 0.012, 0.010] * 10, [0.010] * 40, 1.0, False),
    ],
    ids=["slower for good", "drifts before", "drifts after", "uneven"],
)
def test_only_a_steady_loop_tells_something(
    script: Any, before: list[float], after: list[float], ratio: float, steady: bool
) -> None:
    found = script("deep_before_after").compared(before, after)
    assert (found["ratio"], found["steady"]) == (pytest.approx(ratio), steady)
