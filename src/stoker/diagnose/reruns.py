"""Runs of one configuration, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.diagnose.labels import label_of
from stoker.diagnose.naming import configuration_of
from stoker.diagnose.trial import Trial
from stoker.model.evidence import LoopProfile

REPRODUCIBLE_RATIO = 1.10


@dataclass(frozen=True, slots=True)
class Rerun:
    configuration: str
    metric: str
    figures: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        """Largest over smallest; None where the smallest is zero."""
        low, high = min(self.figures), max(self.figures)
        return high / low if low > 0 else None

    @property
    def reproducible(self) -> bool:
        return max(self.figures) == min(self.figures) or (
            self.ratio is not None and self.ratio <= REPRODUCIBLE_RATIO
        )


def reruns_of(trials: Sequence[Trial], profiles: Sequence[LoopProfile] = ()) -> tuple[Rerun, ...]:
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if (name := _configuration(trial)) is not None and trial.ok is not False:
            groups.setdefault(name, []).append(trial)
    found = [rerun for name, group in groups.items() if (rerun := _rerun(name, group))]
    return tuple(found + _of_profiles(profiles))


def _configuration(trial: Trial) -> str | None:
    """The same case and setting; or a name that claims to be a repeat, with the same known settings."""
    if trial.setting.variant is not None or trial.setting.num_envs is not None:
        return f"{trial.case} {trial.setting.label()} ({trial.stage.value})"
    repeated = configuration_of(trial.case)
    if repeated is None:
        return None
    known = " ".join(f"{key}={value:g}" for key, value in sorted(trial.known.items()))
    return f"{repeated} {known}".strip()


def _rerun(name: str, group: Sequence[Trial]) -> Rerun | None:
    if len(group) < 2:
        return None
    speeds = [trial.samples_per_s for trial in group if trial.samples_per_s]
    if len(speeds) == len(group):
        return Rerun(name, "samples/s", tuple(speeds))
    utils = [util for trial in group if (util := _both(trial)) is not None]
    return Rerun(name, "utilisation %", tuple(utils)) if len(utils) >= 2 else None


def _both(trial: Trial) -> float | None:
    if trial.noted and trial.noted.both_avg_pct is not None:
        return trial.noted.both_avg_pct
    return trial.window.both_avg_pct if trial.window else trial.util_pct


def _of_profiles(profiles: Sequence[LoopProfile]) -> list[Rerun]:
    groups: dict[str, list[float]] = {}
    for profile in profiles:
        if profile.configuration and profile.steps_per_s:
            groups.setdefault(label_of(profile, profiles), []).append(profile.steps_per_s)
    return [Rerun(name, "env steps/s", tuple(speeds)) for name, speeds in groups.items() if len(speeds) > 1]
