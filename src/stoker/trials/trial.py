"""One trial: a fresh process of the user's command, watched, bounded in time, behind a write guard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.model.exit import Exit
from stoker.trials.failures import Failure
from stoker.trials.guard.mode import GuardMode


@dataclass(frozen=True, slots=True)
class TrialSpec:
    command: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the command, without what Stoker adds."""
    folder: Path
    """The trial's own, made by `run_trial`: a run folder that `store.reading.load` reads. The folder above
    it belongs to the ab: what one trial learns of the script's outputs is kept there for the next."""
    for_s: float
    device: str | None = None
    """UUID of the GPU the trial has for itself; None: the CPU."""
    guard: GuardMode = GuardMode.AUTO
    share: bool = False
    """Go on though somebody else uses the GPU."""
    preflight: tuple[tuple[str, ...], ...] = ()
    """Commands that must succeed first, behind the same guard."""
    hide: tuple[Path, ...] = ()
    """Outputs of earlier runs which the trial must not see, besides those found out."""
    cwd: Path | None = None


@dataclass(frozen=True, slots=True)
class TrialResult:
    folder: Path
    """Of the run: `store.reading.load(result.folder)`."""
    exit: Exit
    failure: Failure | None
    started: float
    """Wall clock."""
    ended: float
    notes: tuple[str, ...] = ()


def run_trial(spec: TrialSpec) -> TrialResult:
    raise NotImplementedError
