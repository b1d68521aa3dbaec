"""What a trial is asked to do, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.model.exit import Exit
from stoker.trials.failures import Failure
from stoker.trials.guard.mode import GuardMode

LOG = "output.log"


@dataclass(frozen=True, slots=True)
class TrialSpec:
    command: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment of the command, without what Stoker adds."""
    folder: Path
    """The trial's own, made by `run_trial`: a run folder that `store.reading.load` reads. The folder above
    it belongs to the ab: what one trial learns of the script's outputs is kept there for the next."""
    for_s: float
    until_s: float | None = None
    """By the monotonic clock: ended then, however often it has to be made again."""
    devices: tuple[str, ...] = ()
    """UUIDs of the GPUs the trial has for itself (`outside.gpu.visible`); none: the CPU."""
    guard: GuardMode = GuardMode.AUTO
    """Anything but AUTO is taken as tried before (`find_coverage`)."""
    share: bool = False
    """Go on though somebody else uses the GPU."""
    preflight: tuple[tuple[str, ...], ...] = ()
    """Commands that must succeed first, behind the same guard."""
    hide: tuple[Path, ...] = ()
    """Outputs of earlier runs which the trial must not see, besides those found out."""
    cwd: Path | None = None
    named: tuple[str, ...] = ()
    """`env=module:Class.method`, `eval=module:function`: what to look at inside, besides the usual."""
    total: str | None = None
    """Length of the whole training, as the user wrote it."""
    settings: tuple[str, ...] = ()
    """What of the command and its environment was set by knobs, for the page of this run."""
    enough: Callable[[float], bool] | None = None
    """Asked once a second with the seconds since this start of the command; yes ends it, as its time limit
    would. A trial that is made again starts again: the seconds are then fewer than before."""


@dataclass(frozen=True, slots=True)
class TrialResult:
    folder: Path
    """Of the run: `store.reading.load(result.folder)`."""
    exit: Exit
    failure: Failure | None
    """None where it ended well, or at its time limit."""
    started: float
    """Wall clock."""
    ended: float
    notes: tuple[str, ...] = ()
    resumed: bool = False
    """It did not begin at step 0, though all was done to hide earlier checkpoints: not to be compared."""
    hidden: tuple[Path, ...] = ()
    """What it was not shown of the user's files."""

    @property
    def log(self) -> Path:
        return self.folder / LOG
