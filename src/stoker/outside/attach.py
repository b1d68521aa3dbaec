"""A job that already runs: who it is, and waiting for it. Not our child: its exit code stays unknown."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

from stoker.errors import UsageError
from stoker.launch import procfs
from stoker.launch.procfs import Identity

_LOOK_S = 0.5


def find(pid: int) -> Identity:
    root = procfs.identify(pid)
    if root is None:
        raise UsageError(
            f"there is no process {pid}",
            seen="it has ended, or /proc does not show it to this user",
            hint="find it with: ps -eo pid,etime,args | grep python",
        )
    return root


def follow(
    root: Identity,
    *,
    limit_s: float | None = None,
    on_beat: Callable[[], None] | None = None,
    beat_s: float = 1.0,
) -> bool:
    """Wait for its end; False where the time was up first. Ctrl-C ends the waiting, never the job."""
    end_at = float("inf") if limit_s is None else time.monotonic() + limit_s
    descriptor = _descriptor_of(root)
    try:
        while procfs.identify(root.pid) == root:
            left_s = end_at - time.monotonic()
            if left_s <= 0:
                return False
            _sleep(descriptor, min(beat_s, left_s))
            if on_beat is not None:
                on_beat()
        return True
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _descriptor_of(root: Identity) -> int | None:
    """Readable when the process ends; None on kernels without it, where we look again and again."""
    try:
        return os.pidfd_open(root.pid)
    except OSError:
        return None


def _sleep(descriptor: int | None, timeout_s: float) -> None:
    if descriptor is None:
        time.sleep(min(timeout_s, _LOOK_S))
    else:
        select.select([descriptor], [], [], timeout_s)
