from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from stoker.launch import tree
from stoker.launch.procfs import Identity, Stat
from stoker.launch.tree import Ladder, Member

ANY = Stat(1, "x", "S", 0, 1, False, 0, 0, 0.0, 0.0, 1, 0.0, 0)


def table(*rows: tuple[int, int, float]) -> dict[int, Stat]:
    """(pid, parent, start)"""
    return {pid: replace(ANY, pid=pid, parent_pid=parent, create_time=start) for pid, parent, start in rows}


def chosen(processes: dict[int, Stat], root: Identity, seeds: set[int], excluded: set[int]) -> list[int]:
    return [stat.pid for stat in tree.select(processes, root, seeds, excluded)]


ROOT = Identity(10, 5.0)


def test_root_and_descendants_and_nobody_else() -> None:
    processes = table((1, 0, 0.0), (9, 1, 1.0), (10, 9, 5.0), (11, 10, 6.0), (12, 11, 7.0), (13, 9, 8.0))
    assert chosen(processes, ROOT, set(), set()) == [10, 11, 12]


def test_a_reused_pid_is_not_the_root() -> None:
    assert chosen(table((10, 1, 99.0), (11, 10, 100.0)), ROOT, set(), set()) == []


def test_marked_orphans_bring_their_children() -> None:
    assert chosen(table((20, 1, 6.0), (21, 20, 7.0), (22, 1, 8.0)), ROOT, {20}, set()) == [20, 21]


def test_the_excluded_and_all_below_stay_out() -> None:
    processes = table((10, 9, 5.0), (30, 9, 6.0), (31, 30, 7.0))
    assert chosen(processes, ROOT, {30, 10}, {30}) == [10]


def test_a_child_older_than_its_parent_is_none_of_its() -> None:
    """The table is read over a while: the parent's PID was used again meanwhile."""
    assert chosen(table((10, 9, 5.0), (11, 10, 4.0)), ROOT, set(), set()) == [10]


def test_pids_that_wrapped_around_within_one_tick_are_found() -> None:
    assert set(chosen(table((10, 9, 5.0), (3, 10, 5.0), (2, 3, 5.0)), ROOT, set(), set())) == {10, 3, 2}


class Signals:
    """Takes the place of sending; remembers who got what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[int, int]] = []
        monkeypatch.setattr(tree, "send", self._send)

    def _send(self, identity: Identity, number: int) -> bool:
        if number != signal.SIGCONT:
            self.sent.append((identity.pid, number))
        return True


def member(pid: int) -> Member:
    return Member(Identity(pid, float(pid)), 1, pid, "x")


INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL


def test_the_ladder_goes_up_with_grace_between(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = Signals(monkeypatch)
    ladder = Ladder(lambda: [member(5)], tree.ALL_STEPS, 10.0, now=0.0)
    for now in (0.0, 5.0, 9.9, 10.0, 19.0, 20.0):
        assert not ladder.advance(now)
    assert signals.sent == [(5, INT), (5, TERM), (5, KILL)]
    assert ladder.advance(25.0), "what outlives SIGKILL cannot be helped"
    assert [one.identity.pid for one in ladder.left] == [5]


def test_the_ladder_is_done_when_nobody_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = Signals(monkeypatch)
    left = [member(5)]
    ladder = Ladder(lambda: left, tree.ALL_STEPS, 10.0, now=0.0)
    assert not ladder.advance(0.0)
    left.clear()
    assert ladder.advance(0.1)
    assert signals.sent == [(5, INT)]


def test_newcomers_get_the_signal_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = Signals(monkeypatch)
    left = [member(5)]
    ladder = Ladder(lambda: left, tree.ALL_STEPS, 10.0, now=0.0)
    ladder.advance(0.0)
    ladder.advance(11.0)
    left.append(member(6))
    ladder.advance(11.1)
    assert signals.sent == [(5, INT), (5, TERM), (6, TERM)]


def test_killing_at_once_skips_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = Signals(monkeypatch)
    ladder = Ladder(lambda: [member(5)], tree.ALL_STEPS, 10.0, now=0.0)
    ladder.advance(0.0)
    ladder.kill_now(0.1)
    ladder.advance(0.1)
    assert signals.sent == [(5, INT), (5, KILL)]
