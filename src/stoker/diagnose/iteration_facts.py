"""What the iterations of an on-policy trainer say: speed, and how much of the time was evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from stoker.model.evidence import IterationLog

_FEWEST_PLAIN_ITERATIONS = 2


@dataclass(frozen=True, slots=True)
class IterationFacts:
    iterations: int
    wall_s: float
    samples_per_s: float | None
    """Over everything since the training began, evaluation included."""
    train_samples_per_s: float | None
    """Of an iteration without evaluation."""
    evaluations: int
    evaluation_share_frac: float | None
    """Of the wall time; contains the warm-up of the first iteration. None where it cannot be computed."""
    extra_networks: tuple[str, ...]
    parameters: int | None
    envs_built: int | None


def facts_of(log: IterationLog) -> IterationFacts:
    wall = log.wall_s[-1]
    plain = _plain_durations(log)
    usual = median(plain) if len(plain) >= _FEWEST_PLAIN_ITERATIONS else None
    samples = log.samples[-1]
    return IterationFacts(
        iterations=len(log.iterations),
        wall_s=wall,
        samples_per_s=samples / wall if wall > 0 and samples == samples else None,
        train_samples_per_s=_train_speed(log, usual),
        evaluations=sum(log.evaluated),
        evaluation_share_frac=_evaluation_share(log, usual),
        extra_networks=_extra_networks(log.keys),
        parameters=log.parameters,
        envs_built=log.envs_built,
    )


def _durations(log: IterationLog) -> list[float]:
    """The clock starts with the training, so the first iteration lasts from zero."""
    walls = list(log.wall_s)
    return [end - start for start, end in zip([0.0, *walls], walls, strict=False)]


def _plain_durations(log: IterationLog) -> list[float]:
    if not log.complete:
        return []
    pairs = zip(_durations(log), log.evaluated, strict=True)
    return [length for length, evaluated in pairs if not evaluated and length > 0]


def _evaluation_share(log: IterationLog, usual: float | None) -> float | None:
    wall = log.wall_s[-1]
    if usual is None or wall <= 0 or not any(log.evaluated):
        return None
    extra = sum(
        max(0.0, length - usual)
        for length, evaluated in zip(_durations(log), log.evaluated, strict=True)
        if evaluated
    )
    return min(1.0, extra / wall)


def _train_speed(log: IterationLog, usual: float | None) -> float | None:
    if not usual or len(log.samples) < 2:
        return None
    per_iteration = (log.samples[-1] - log.samples[0]) / (len(log.samples) - 1)
    return per_iteration / usual if per_iteration > 0 else None


def _extra_networks(keys: frozenset[str]) -> tuple[str, ...]:
    found = []
    if any(key.startswith("Disc_") for key in keys):
        found.append("discriminator")
    if any(key.startswith("Enc_") for key in keys):
        found.append("encoder")
    return tuple(found)
