"""The classes of a training and the one table of limits that tells them apart. Figures in, judgement out.

The limits are the users' own (23 GB, 8 GB, 60 %, 45 %), from cards of 24 564 MiB; where a card's size is
known, the same points of that card are used. Figures come from the long or train stage, never from a test.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum


class CaseClass(StrEnum):
    VRAM_BOUND = "VRAM-bound"
    COMPUTE_HEAVY = "compute-heavy"
    BALANCED = "balanced"
    THROUGHPUT_BOUND = "throughput/env-bound"
    UNCLASSIFIABLE = "unclassifiable"


@dataclass(frozen=True, slots=True)
class Limits:
    """All thresholds of the classes. Every one can be overridden by name."""

    util_high_pct: float = 60.0
    util_low_pct: float = 45.0
    mem_full_mib: float = 23_000.0
    mem_low_mib: float = 8_000.0
    mem_full_frac: float = 0.935
    mem_low_frac: float = 0.33
    near_pct: float = 2.0
    """A utilisation this close to a limit could fall on either side of it."""
    fewest_samples: int = 10
    active_util_pct: float = 5.0
    """A GPU sample at or above this counts as active."""

    def with_overrides(self, overrides: dict[str, float]) -> Limits:
        return replace(self, **overrides)  # type: ignore[arg-type]


LIMITS = Limits()
LIMIT_NAMES = tuple(field.name for field in fields(Limits))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a class is made from. `util_pct` is the mean of the least busy GPU."""

    util_pct: float | None
    peak_mem_mib: float | None = None
    mem_total_mib: float | None = None
    samples: int | None = None
    """GPU samples behind the mean; None where the file does not say."""


@dataclass(frozen=True, slots=True)
class Judgement:
    case_class: CaseClass
    why: str
    memory_known: bool
    memory_low: bool | None
    near_limit_pct: float | None = None
    """The utilisation limit that is too close to call, if there is one."""


def judge(figures: Figures, limits: Limits = LIMITS) -> Judgement:
    if figures.util_pct is None:
        return _no_class("no utilisation in this file", figures, limits)
    if figures.samples is not None and figures.samples < limits.fewest_samples:
        return _no_class(
            f"only {figures.samples} GPU samples, {limits.fewest_samples} are needed", figures, limits
        )
    case_class, why = _class_of(figures.util_pct, figures, limits)
    near = next((limit for limit in (limits.util_high_pct, limits.util_low_pct)
                 if abs(figures.util_pct - limit) <= limits.near_pct), None)  # fmt: skip
    near = None if case_class is CaseClass.VRAM_BOUND else near
    return Judgement(case_class, why, figures.peak_mem_mib is not None, _memory_low(figures, limits), near)


def _no_class(why: str, figures: Figures, limits: Limits) -> Judgement:
    known = figures.peak_mem_mib is not None
    return Judgement(CaseClass.UNCLASSIFIABLE, why, known, _memory_low(figures, limits))


def _class_of(util: float, figures: Figures, limits: Limits) -> tuple[CaseClass, str]:
    """Memory first: a full card is a matter of stability, and stability goes before the rest."""
    memory, low, high = _memory_words(figures), limits.util_low_pct, limits.util_high_pct
    if _memory_full(figures, limits):
        return CaseClass.VRAM_BOUND, f"memory is full ({memory}) while utilisation is {util:.1f} %"
    if util >= high:
        return CaseClass.COMPUTE_HEAVY, f"utilisation {util:.1f} % is at or above {high:g} %; {memory}"
    if util >= low:
        return CaseClass.BALANCED, f"utilisation {util:.1f} % lies between {low:g} and {high:g} %; {memory}"
    limit = "" if figures.peak_mem_mib is None else " and memory is not what limits it"
    return CaseClass.THROUGHPUT_BOUND, f"utilisation {util:.1f} % is below {low:g} %{limit}; {memory}"


def _memory_words(figures: Figures) -> str:
    if figures.peak_mem_mib is None:
        return "memory unknown"
    if figures.mem_total_mib:
        return f"memory {figures.peak_mem_mib:.0f} of {figures.mem_total_mib:.0f} MiB"
    return f"memory {figures.peak_mem_mib:.0f} MiB, card size not in the file"


def _memory_full(figures: Figures, limits: Limits) -> bool:
    return figures.peak_mem_mib is not None and figures.peak_mem_mib >= _bound(
        figures, limits.mem_full_frac, limits.mem_full_mib
    )


def _memory_low(figures: Figures, limits: Limits) -> bool | None:
    if figures.peak_mem_mib is None:
        return None
    return figures.peak_mem_mib < _bound(figures, limits.mem_low_frac, limits.mem_low_mib)


def _bound(figures: Figures, frac: float, absolute_mib: float) -> float:
    return figures.mem_total_mib * frac if figures.mem_total_mib else absolute_mib
