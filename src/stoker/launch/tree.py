"""Which processes belong to a run, and how all of them are ended.

A process belongs to a run by the marker in its environment, or by parentage: it descends from the command, or
the kernel gave it to Stoker (the subreaper) when its parent ended. Never by PID alone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from stoker.launch import procfs
from stoker.launch.procfs import Identity, Stat

RUN_MARKER = "STOKER_RUN"
"""Environment variable carried by every process of a run; its value is the run's id."""

_LOOK_AGAIN_S = 0.1
_AFTER_KILL_S = 5.0
"""A process in uninterruptible sleep outlives SIGKILL; no use in waiting for ever."""


@dataclass(frozen=True, slots=True)
class Member:
    identity: Identity
    parent_pid: int
    group: int
    name: str


def marker_text(run_id: str) -> bytes:
    return os.fsencode(f"{RUN_MARKER}={run_id}")


def members(
    run_id: str, root: Identity, *, adopter: int | None = None, own: Collection[int] = ()
) -> list[Member]:
    """All live processes of a run, parents before their children.

    `adopter` is the subreaper, whose children belong to the run except those named in `own` (its watcher).
    """
    table = {stat.pid: stat for stat in map(procfs.read_stat, procfs.list_pids() or ()) if stat}
    marker = marker_text(run_id)
    marked = {pid for pid, stat in table.items() if not stat.kernel_thread and procfs.carries(pid, marker)}
    adopted = {pid for pid, stat in table.items() if adopter is not None and stat.parent_pid == adopter}
    chosen = select(table, root, marked | adopted, {os.getpid(), *own})
    return [_member(stat) for stat in chosen if not stat.dead]


def select(
    table: Mapping[int, Stat], root: Identity, seeds: Collection[int], excluded: Collection[int]
) -> list[Stat]:
    """The root, the seeds and all that descends from them; nothing below an excluded process."""
    children: dict[int, list[Stat]] = {}
    for stat in table.values():
        children.setdefault(stat.parent_pid, []).append(stat)
    pending = [stat for stat in table.values() if stat.identity == root or stat.pid in seeds]
    chosen: dict[int, Stat] = {}
    while pending:
        stat = pending.pop()
        if stat.pid in chosen or stat.pid in excluded:
            continue
        chosen[stat.pid] = stat
        # A child is never older than its parent: if it is, the PID was used again while we looked.
        pending += [kid for kid in children.get(stat.pid, ()) if kid.create_time >= stat.create_time]
    return sorted(chosen.values(), key=lambda stat: (stat.create_time, stat.pid))


def _member(stat: Stat) -> Member:
    return Member(stat.identity, stat.parent_pid, stat.group, stat.name)


def send(identity: Identity, number: int) -> bool:
    """Signal this very process: the descriptor pins the PID, so its start time is checked without a race."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except OSError:  # an old kernel, or out of descriptors
        return _send_by_pid(identity, number)
    try:
        if not _still_is(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
        return True
    except OSError:  # ended meanwhile, or not ours to signal
        return False
    finally:
        os.close(descriptor)


def _send_by_pid(identity: Identity, number: int) -> bool:
    if not _still_is(identity):
        return False
    try:
        os.kill(identity.pid, number)
    except OSError:
        return False
    return True


def _still_is(identity: Identity) -> bool:
    if identity.create_time is None:
        return True
    stat = procfs.read_stat(identity.pid)
    return stat is not None and stat.identity == identity


class Ladder:
    """Ends processes step by step (INT, TERM, KILL) with a grace between, until none is left.

    It never blocks: `advance` is called again and again, so that its caller can go on hearing signals.
    Processes which appear on the way get the signal of the step that is on.
    """

    def __init__(
        self, find: Callable[[], Sequence[Member]], steps: Sequence[int], grace_s: float, now: float
    ) -> None:
        self._find = find
        self._steps = list(steps)
        self._grace_s = grace_s
        self._step_since = now
        self._sent: set[Identity] = set()
        self.left: Sequence[Member] = ()
        """Who was still there at the last look."""

    def kill_now(self, now: float) -> None:
        if self._steps[0] != signal.SIGKILL:
            self._enter([signal.SIGKILL], now)

    def advance(self, now: float) -> bool:
        """One look; True when nobody is left, or nothing more can be done."""
        waited_s = now - self._step_since
        if len(self._steps) > 1 and waited_s >= self._grace_s:
            self._enter(self._steps[1:], now)
        self.left = self._find()
        for member in self.left:
            self._signal_once(member.identity)
        gave_up = self._steps[0] == signal.SIGKILL and now - self._step_since >= _AFTER_KILL_S
        return not self.left or gave_up

    def _enter(self, steps: list[int], now: float) -> None:
        self._steps = steps
        self._step_since = now
        self._sent.clear()

    def _signal_once(self, identity: Identity) -> None:
        if identity in self._sent:
            return
        self._sent.add(identity)
        send(identity, self._steps[0])
        if self._steps[0] != signal.SIGKILL:
            send(identity, signal.SIGCONT)  # a stopped process hears nothing until it goes on


ALL_STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def end(
    find: Callable[[], Sequence[Member]], *, steps: Sequence[int] = ALL_STEPS, grace_s: float = 10.0
) -> Sequence[Member]:
    """End what `find` finds; blocks until nobody is left. Returns those that would not go."""
    ladder = Ladder(find, steps, grace_s, time.monotonic())
    while not ladder.advance(time.monotonic()):
        time.sleep(_LOOK_AGAIN_S)
    return ladder.left
