"""Whether a recorded run is still going on, on this machine."""

from __future__ import annotations

import platform
import time
from pathlib import Path

from stoker.launch import procfs, tree
from stoker.launch.procfs import Identity
from stoker.model.run import RunInfo

YOUNG_S = 60.0
"""A folder without a readable run.json may belong to a Stoker that is just starting."""


def is_alive(folder: Path, info: RunInfo | None) -> bool:
    """True also where it cannot be told: what is alive must not be thrown away."""
    if info is None:
        return _is_young(folder) or _has_members(folder.name)
    if info.ended_s is not None:
        return False
    if info.host and info.host != platform.node():
        return True
    return _is_watched(info) or _has_members(info.id)


def _is_watched(info: RunInfo) -> bool:
    if info.stoker_pid is None:
        return False
    return procfs.identify(info.stoker_pid) == Identity(info.stoker_pid, info.stoker_start_s)


def _has_members(run_id: str) -> bool:
    if procfs.list_pids() is None:
        return True
    return bool(tree.members(run_id, Identity(-1, None)))


def _is_young(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime < YOUNG_S
    except OSError:
        return False
