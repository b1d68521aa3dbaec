"""What `compile` tells of itself, by torch's counters of graphs and pieces of code."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest

from stoker.inside.knobs.compiling import Compile


@pytest.mark.parametrize(
    ("graphs", "tries", "done", "called", "state", "why"),
    [
        (2, 2, 2, True, "applied", ""),
        (2, 3, 2, True, "applied", "elsewhere not: 1 of 3 pieces could not be compiled and ran eager"),
        (0, 3, 0, True, "refused", "compile failed, ran eager: torch has compiled nothing of it (tries: 3"),
        (0, 2, 2, True, "refused", "compile failed, ran eager"),  # only breaks, no graph
        (0, 0, 0, True, "refused", "compile failed, ran eager"),  # passed over without a word
        (0, 0, 0, False, "applied", ""),  # its first call is not over
    ],
)
def test_what_is_told(
    monkeypatch: pytest.MonkeyPatch, graphs: int, tries: int, done: int, called: bool, state: str, why: str
) -> None:
    counters = defaultdict(Counter, frames=Counter(total=5, ok=4), stats=Counter(unique_graphs=4))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=counters))
    knob = Compile(SimpleNamespace(recorder=None, tripwire=None), "inductor")
    knob.did("Net with inductor")
    knob.before, knob.called_again = (4, 5, 4), called
    counters["stats"]["unique_graphs"] += graphs
    counters["frames"].update(total=tries, ok=done)
    row = knob.row()
    assert row["state"] == state
    assert row["why"].startswith(why)
    assert bool(row["why"]) == bool(why)
