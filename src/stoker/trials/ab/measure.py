"""What one trial of one arm gave: its speed, what stands beside it, or why there is none. One row of the
journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

UNITS = ("env_steps", "samples", "rows", "ticks")
"""Useful work, the most telling first. Ticks alone say nothing where the batch changes."""


class Arm(StrEnum):
    A = "A"
    B = "B"


@dataclass(frozen=True, slots=True)
class ArmFailure:
    """A trial that gave no window because the command failed."""

    kind: str
    text: str
    hint: str = ""
    tail: tuple[str, ...] = ()
    """The last lines of its log."""


@dataclass(frozen=True, slots=True)
class ArmMeasure:
    arm: Arm
    pair: int
    """From 1."""
    order: int
    """0 where it ran first in its pair."""
    attempt: int = 1
    seed: int | None = None
    folder: str = ""
    """The trial's run folder, below the session's."""
    took_s: float = 0.0
    """All of it, with its start."""
    start_s: float | None = None
    """Until the first tick."""
    rates: Mapping[str, float] | None = None
    """Per second of the steady window, by unit."""
    window_s: float = 0.0
    half_width_frac: float | None = None
    """95 % interval of the speed from this window alone; None where the window is too short to say."""
    ticks: int = 0
    steady: bool = False
    remark: str = ""
    """Why it is not steady; else what is worth knowing of the window."""
    too_short: bool = False
    """The command ended by itself before a window was full: no use in running it again."""
    updates_per_env_step: float | None = None
    updates_in_a_row: float | None = None
    samples_per_tick: float | None = None
    rows_per_tick: float | None = None
    """What the model is given in training, where no loader tells samples."""
    busy_pct: float | None = None
    real_work_pct: float | None = None
    memory_peak_bytes: int | None = None
    whole_s: float | None = None
    """How long the whole training would take, where its length is known."""
    whole_from: str = ""
    failure: ArmFailure | None = None
    invalid: str = ""
    """The speed says nothing of the setting: somebody else on the GPU."""
    dead: tuple[str, ...] = ()
    """Settings the run proves to be without effect."""
    doubtful: tuple[str, ...] = ()
    """Settings of which no sign was seen, which proves nothing: a speed that differs is one."""
    metric_name: str = ""
    metric: tuple[tuple[float, float], ...] = ()
    """Loss or return, by samples (or by what `metric_by` says)."""
    metric_by: str = ""
    metric_unit: float = 0.0
    """Of the last digit that is printed of it."""
    metric_missing: str = ""
    """Why there is none."""
    notes: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        return self.failure is None and not self.invalid and self.steady and bool(self.rates)


def as_row(measure: ArmMeasure) -> dict[str, object]:
    return asdict(measure)


def from_row(row: Mapping[str, Any]) -> ArmMeasure:
    """Fields of a later version are left out; a row that lacks what counts raises."""
    known = {field.name for field in fields(ArmMeasure)}
    values = {name: value for name, value in row.items() if name in known}
    failure = values.get("failure")
    values["arm"] = Arm(values["arm"])
    values["pair"], values["order"] = int(values["pair"]), int(values["order"])
    values["failure"] = ArmFailure(**{**failure, "tail": tuple(failure["tail"])}) if failure else None
    values["metric"] = tuple((float(x), float(y)) for x, y in values.get("metric") or ())
    for name in ("dead", "doubtful", "notes"):
        values[name] = tuple(map(str, values.get(name) or ()))
    if values.get("rates"):
        values["rates"] = {str(unit): float(rate) for unit, rate in values["rates"].items()}
    return ArmMeasure(**values)
