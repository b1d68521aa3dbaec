"""What is known of a run at its start, launched by Stoker or found running, and at its end."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stoker import __version__
from stoker.launch import procfs
from stoker.model.exit import Exit
from stoker.model.run import RunInfo


def begun(
    folder: Path, command: Sequence[str], *, total: str | None = None, attached_pid: int | None = None
) -> RunInfo:
    own = procfs.identify(os.getpid())
    return RunInfo(
        id=folder.name,
        command=tuple(command),
        cwd=os.getcwd(),
        started_wall=time.time(),
        started_s=time.perf_counter(),
        total=total,
        attached_pid=attached_pid,
        stoker=__version__,
        host=platform.node(),
        stoker_pid=os.getpid(),
        stoker_start_s=own.create_time if own else None,
    )


def ended(info: RunInfo, exit: Exit, notes: Sequence[str]) -> RunInfo:
    return replace(
        info,
        ended_s=time.perf_counter(),
        exit_code=exit.code,
        exit_signal=exit.signal,
        ended_by=exit.ended_by.value,
        notes=tuple(notes),
    )
