"""One training, two answers: as a card with GPM tells it, and as one without.

The training runs under `stoker run` with STOKER_NO_GPM=1, as on a 4090 or an A100: NVML's own counters, and
the deep window that comes by itself there. A second watcher, the same program with GPM, looks at the same run
and writes into a folder of its own. That file in place of the first, and the deep window taken away, is what
the same training leaves on a Hopper card. What is not the same: benchmarks/pathologies/README.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from stoker.inside import wire
from stoker.launch.procfs import Identity
from stoker.launch.watcher import Watcher, start_watcher
from stoker.outside.gpu.nvml import NO_GPM
from stoker.store.reading import load

COUNTERS = Path("outside", "gpu.jsonl")
DEEP_AFTER_S = 3.0
SETTINGS = {NO_GPM: "1", "LAB_DEEP_AFTER_S": f"{DEEP_AFTER_S:g}"}
"""Of the run itself; runs here are shorter than the 10 s after which a deep window comes by itself."""
_LOOK_S = 0.05


def allow_gpm() -> None:
    """A second watcher inherits what is set here."""
    os.environ.pop(NO_GPM, None)


def start_beside(
    run: subprocess.Popen[bytes], home: Path, folder: Path, turn: Path | None = None
) -> Watcher | None:
    """As soon as `run`, a `stoker run` into `home`, is being watched, and with `turn` only when that file is
    there: a training that waits for the card needs no second look at it. None where it ended before that."""
    while run.poll() is None:
        header = _header(home)
        if header is not None and (turn is None or turn.exists()):
            return start_watcher(folder, header["run_id"], Identity(header["root_pid"], None))
        time.sleep(_LOOK_S)
    return None


def _header(home: Path) -> dict[str, Any] | None:
    """The first row of the run's own watcher: the run's name, and its first process."""
    for path in home.glob("runs/*/outside/host.jsonl"):
        line, end, _ = path.read_bytes().partition(b"\n")
        if end:
            header: dict[str, Any] = json.loads(line)
            return header
    return None


def recorded_run(home: Path) -> Path:
    """The one run there is."""
    return next(home.glob("runs/*/run.json")).parent


def with_gpm(run: Path, counters: Path, folder: Path, deep: bool = False) -> Path:
    """The run with the second watcher's counters, as a copy in `folder`; without its deep window, unless it
    is to be as after `stoker run --deep`."""
    shutil.copytree(run, folder, ignore=None if deep else shutil.ignore_patterns("*.deep.tsv"))
    shutil.copyfile(counters, folder / COUNTERS)
    if deep:
        return folder
    for path in (folder / "inside").glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if not _tells_deep(line)))
    return folder


def told_by_gpm(run: Path, counters: Path, folder: Path) -> list[Path]:
    """By counters alone, and with the deep window."""
    return [with_gpm(run, counters, folder / f"gpm_{name}", name == "deep") for name in ("alone", "deep")]


def _tells_deep(line: bytes) -> bool:
    if wire.DEEP_WINDOW.encode() not in line:
        return False
    try:
        return bool(json.loads(line).get("k") == wire.DEEP_WINDOW)
    except (ValueError, AttributeError):
        return False  # a torn line is for the reader to judge


def deep_stage(run: Path) -> tuple[float, float] | None:
    """When the deep window was, from its preparation until the training ran as before; on the run's clock."""
    trainers = load(run).trainers
    marks = sorted(trainers[0].marks, key=lambda mark: mark.sums.t_s) if trainers else []
    times = [(mark.stage, mark.sums.t_s) for mark in marks]
    begins = next((index for index, (stage, _) in enumerate(times) if stage == wire.DEEP), None)
    if begins is None:
        return None
    end_s = times[begins + 1][1] if begins + 1 < len(times) else float("inf")
    return times[begins][1], end_s
