"""What a cause is made of, and how a finding is built from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    CRITICAL_FRAC,
    NOTE_FRAC,
    SELDOM_ENOUGH_FRAC,
    WARNING_FRAC,
)
from stoker.diagnose.labels import figure
from stoker.model.finding import Evidence, Finding, Fix, Severity
from stoker.model.record import Place

Find = Callable[[Signals], Finding | None]

LITTLE_WORK = "GPU busy with little work"
IN_THE_MODEL = "time of the model's calls"
NO_KERNEL = "time without any kernel"


@dataclass(frozen=True, slots=True)
class Cause:
    """`find` sees signals alone; the code is for ever, the name may change."""

    code: str
    name: str
    find: Find


def severity(recoverable_frac: float) -> Severity:
    if recoverable_frac >= CRITICAL_FRAC:
        return Severity.CRITICAL
    return Severity.WARNING if recoverable_frac >= WARNING_FRAC else Severity.NOTE


def finding(
    code: str,
    name: str,
    says: str,
    recoverable_frac: float,
    of: str,
    evidence: Iterable[Evidence | None],
    confirm: str,
    fixes: tuple[Fix, ...],
    place: Place | None = None,
    mend_at: Place | None = None,
    in_code: bool = True,
    by_workers: float | None = None,
) -> Finding | None:
    """None where too little could be won to speak of."""
    if recoverable_frac < NOTE_FRAC:
        return None
    return Finding(
        code=code,
        name=name,
        says=says,
        severity=severity(recoverable_frac),
        recoverable_frac=recoverable_frac,
        recoverable_of=of,
        evidence=tuple(one for one in evidence if one is not None),
        confirm=confirm,
        fixes=fixes,
        place=place,
        mend_at=mend_at,
        in_code=in_code,
        by_workers=by_workers,
    )


def less_often(what: str, frac: float, before: str, after: str) -> Fix:
    """So seldom that it takes SELDOM_ENOUGH_FRAC of the time, where it takes `frac` now."""
    times = math.ceil(frac * (1 - SELDOM_ENOUGH_FRAC) / (SELDOM_ENOUGH_FRAC * (1 - min(frac, 0.999))))
    text = f"{what} {times} times as seldom, and it takes 2 %" if times > 1 else f"{what} less often"
    return Fix(text, before, after)


def without_ceiling(
    code: str,
    name: str,
    says: str,
    of: str,
    why: str,
    evidence: Iterable[Evidence | None],
    confirm: str,
    fixes: tuple[Fix, ...],
    place: Place | None = None,
    severity: Severity = Severity.WARNING,
    in_code: bool = True,
) -> Finding:
    """Where it cannot be said how much could be won; `why` says why not."""
    return Finding(
        code=code,
        name=name,
        says=says,
        severity=severity,
        recoverable_frac=None,
        recoverable_of=of,
        evidence=tuple(one for one in evidence if one is not None),
        confirm=confirm,
        fixes=fixes,
        place=place,
        no_ceiling=why,
        in_code=in_code,
    )


def as_frac(pct: float | None) -> float | None:
    return None if pct is None else pct / 100


def share(text: str, frac: float | None, source: str) -> Evidence | None:
    """`text` with its figure in %; None where there is none."""
    if frac is None:
        return None
    return Evidence(f"{100 * frac:.0f} % {text}", 100 * frac, "%", source)


def number(text: str, value: float | None, unit: str, source: str) -> Evidence | None:
    """`text` has a place for the figure: `{}`."""
    if value is None:
        return None
    shown = figure(value)
    text = text.replace("{} cores are", "{} core is") if shown == "1" else text
    return Evidence(text.format(shown), value, unit, source)
