"""Waits and copies by line: each counts in the stage it was in, which is known only afterwards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stoker.inside import wire
from stoker.inside.hooks.transfers import TransferHook


@pytest.fixture
def waiting(driven):
    """`waiting(seconds)`: the training thread waits, in this file."""
    hook = TransferHook(driven.agent)
    driven.agent.hooks.append(hook)
    on_gpu = SimpleNamespace(is_cuda=True)
    read = hook._timed(lambda _tensor, seconds: driven.clock.advance(seconds), None)
    return lambda seconds: read(on_gpu, seconds)


def told(driven) -> dict[str, float]:
    """Seconds by stage."""
    found: dict[str, float] = {}
    for (_, stage, _), (_, seconds) in driven.agent.syncs.items():
        found[stage] = found.get(stage, 0.0) + seconds
    return found


def test_what_came_after_the_last_tick_is_no_training(driven, waiting) -> None:
    for _ in range(5):
        driven.tick(0.010)
        waiting(0.002)
    driven.tick(0.010)
    waiting(0.300)
    driven.flush()
    assert told(driven) == {wire.TRAIN: pytest.approx(0.010)}, "the last is not known yet"
    driven.recorder.training_ended()
    driven.agent._flush_last()
    assert told(driven) == {wire.TRAIN: pytest.approx(0.010), wire.AFTER: pytest.approx(0.300)}


def test_the_child_of_a_fork_starts_anew(driven, waiting) -> None:
    driven.tick(0.010)
    waiting(0.002)
    hook = driven.agent.hook("transfer")
    assert hook.spots
    hook.forked()
    assert not hook.spots
    assert not hook.noted
