"""A cause of lost time with its evidence, and the verdict on a run.

A finding says how much could be won if it cost nothing (Amdahl): with a share f of the window, 1 / (1 - f).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stoker.model.record import Place


class Severity(StrEnum):
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number, what it is, and where it comes from."""

    text: str
    value: float | None
    unit: str
    source: str
    """`host clock`, `looks`, `loader workers`, `host watcher`, `gpm`, `nvml`, `events`, …"""


@dataclass(frozen=True, slots=True)
class Fix:
    """A knob, or a few lines of code."""

    text: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    name: str
    says: str
    """One line."""
    severity: Severity
    recoverable_frac: float | None
    """Of the window, if the cause cost nothing; None: cannot be told, see `no_ceiling`."""
    recoverable_of: str
    """`GPU idle time`, `time of the training thread`, `time of the run`, `GPU busy with little work` …"""
    evidence: tuple[Evidence, ...]
    confirm: str
    fixes: tuple[Fix, ...]
    place: Place | None = None
    mend_at: Place | None = None
    """Where the change is made, if that is another line."""
    no_ceiling: str = ""
    by_workers: float | None = None
    """Times as fast, at most, if workers did it on the cores there are; where that is less."""
    in_code: bool = True
    """Whether a change of the training's code or settings can help."""

    @property
    def ceiling(self) -> float | None:
        """Times as fast, were it free and nothing else changed; a fix may free more than its own share."""
        if self.recoverable_frac is None:
            return None
        return 1.0 / (1.0 - min(self.recoverable_frac, 0.999))

    @property
    def docs(self) -> str:
        return f"docs/causes/{self.code}.md"


class Outcome(StrEnum):
    CAUSES = "causes"
    HEALTHY = "healthy"
    NOT_FIXABLE = "not fixable in code"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    text: str
    findings: tuple[Finding, ...] = ()
    """Costliest first; also where the run is healthy, then only notes."""
    would_tell: str = ""
    """What would tell, where it cannot be told."""
