"""Orphans of a run come to Stoker: it asks the kernel for them and lets their zombies go."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Subreaper:
    """True where orphans of the run will be re-parented to us; otherwise says why not."""

    available: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.available


def become_subreaper() -> Subreaper:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0:
            return Subreaper(True)
        return Subreaper(False, f"prctl: {os.strerror(ctypes.get_errno())}")
    except (OSError, AttributeError) as error:
        return Subreaper(False, f"no prctl in the C library: {error}")


OWN: dict[int, subprocess.Popen[bytes]] = {}
"""Stoker's own helpers (the watcher): never part of a run, and their status belongs to their Popen."""


@dataclass(frozen=True, slots=True)
class Status:
    wait_status: int
    cpu_s: float
    """Its own, and of all below it that were waited for."""


def take_status(child_pid: int) -> Status | None:
    """Reap whatever has ended; the child's status if it is among them.

    Peeks before it takes (WNOWAIT), so that only the one meant is ever waited for.
    """
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if ended is None:
            return None
        if ended.si_pid == child_pid:
            _, wait_status, used = os.wait4(child_pid, 0)
            return Status(wait_status, used.ru_utime + used.ru_stime)
        if ended.si_pid in OWN:
            OWN.pop(ended.si_pid).wait()
        else:
            os.waitpid(ended.si_pid, 0)
