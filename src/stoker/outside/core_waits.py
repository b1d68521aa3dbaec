"""How long the threads that train were ready to run and had no core, from the scheduler's own count.

Whose cores others use is slowed down by an amount that no load figure tells; this one does. Counted are the
first thread of each process that trains, and those in which torch runs the backward pass for a GPU, while the
first one waits for them. A training in a thread of its own is not seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Set
from pathlib import Path

from stoker.launch.procfs import read_text
from stoker.model.host import CoreWait

_PROCESSES_MAX = 16
_LIST_EVERY = 5
"""Looks between two searches for more processes that train, and for more threads of theirs."""
_RECORDED = re.compile(r"(\d+)-\d+\.jsonl")
_BACKWARD = "pt_autograd"
"""Begin of the name torch gives those threads (read in torch 2.13, autograd/engine.cpp)."""


class CoreWaits:
    def __init__(self, inside: Path) -> None:
        """`inside`: where each process that Stoker sees from inside has a file with its PID."""
        self._inside = inside
        self._looks = 0
        self._threads: dict[int, dict[int, tuple[float, float]]] = {}

    def look(self, pids: Set[int], t: float) -> Iterator[CoreWait]:
        """A row for each process that trains; none where the kernel does not count it."""
        if not self._threads or self._looks % _LIST_EVERY == 0:
            self._search(pids)
        self._looks += 1
        for pid in self._threads.keys() & pids:
            threads = self._threads[pid]
            threads |= {thread: times for thread in threads if (times := _schedstat(pid, thread))}
            on_core_s, waited_s = (round(sum(column), 4) for column in zip(*threads.values(), strict=True))
            if on_core_s:
                yield CoreWait(t, pid, on_core_s, waited_s, len(threads))

    def _search(self, pids: Set[int]) -> None:
        for pid in sorted(pids & _recorded(self._inside)):
            if pid in self._threads or len(self._threads) < _PROCESSES_MAX:
                known = self._threads.setdefault(pid, {pid: (0.0, 0.0)})
                known |= dict.fromkeys(_backward_threads(pid) - known.keys(), (0.0, 0.0))


def _recorded(folder: Path) -> set[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return set()
    return {int(found[1]) for name in names if (found := _RECORDED.fullmatch(name))}


def _backward_threads(pid: int) -> set[int]:
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return set()
    comm = "/proc/{}/task/{}/comm"
    return {one for one in threads if (read_text(comm.format(pid, one)) or "").startswith(_BACKWARD)}


def _schedstat(pid: int, thread: int) -> tuple[float, float] | None:
    """Seconds on a core, and ready without one."""
    return parse_schedstat(read_text(f"/proc/{pid}/task/{thread}/schedstat") or "")


def parse_schedstat(text: str) -> tuple[float, float] | None:
    fields = text.split()
    if len(fields) < 2 or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    return int(fields[0]) / 1e9, int(fields[1]) / 1e9
