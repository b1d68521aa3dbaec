"""Whether a setting had an effect, from what a run recorded: a knob counts as changed only when the run
shows it. Where the meaning of a setting is not known, two runs are compared."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.model.run import Run
from stoker.trials.knobs.knob import Setting


@dataclass(frozen=True, slots=True)
class Liveness:
    live: bool | None
    """None: it cannot be told, and `reason` says why."""
    seen: str
    reason: str = ""


def differences(run: Run, other: Run) -> dict[str, tuple[str, str]]:
    """Facts of two runs that are not the same: name, and what each shows."""
    return {}


def liveness(setting: Setting, run: Run, other: Run | None = None) -> Liveness:
    """`other` is a run of the same command with another value."""
    return Liveness(None, "", "not looked at yet")
