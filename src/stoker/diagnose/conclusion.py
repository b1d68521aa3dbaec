"""The answer in short: the figures, and behind them the verdict in one sentence.

The figures alone mislead where a cause hides in work: a model asked for one environment at a time is 90 %
model, and plain FP32 keeps a GPU busy.
"""

from __future__ import annotations

from stoker.diagnose.places import shown
from stoker.diagnose.sentence import sentence
from stoker.diagnose.summary import Summary
from stoker.model.finding import Finding, Outcome, Verdict


def in_short(summary: Summary, verdict: Verdict) -> str:
    if summary.main is None or not summary.main.window.content.ticks:
        return sentence(summary)
    info = summary.run.info
    if verdict.outcome is Outcome.HEALTHY and info.failure is not None:
        return f"{sentence(summary)} Until it ended nothing held it up."
    return f"{sentence(summary)} {conclusion(verdict, info.cwd)}"


def conclusion(verdict: Verdict, cwd: str) -> str:
    match verdict.outcome:
        case Outcome.CAUSES:
            return f"Most to gain: {_told(verdict.findings[0], cwd)}."
        case Outcome.NOT_FIXABLE:
            return f"Not fixable in code: {_told(verdict.findings[0], cwd)}."
        case Outcome.HEALTHY:
            return "Healthy: leave it as it is."
        case Outcome.CANNOT_TELL:
            return "What would make it faster cannot be told from this run."


def _told(finding: Finding, cwd: str) -> str:
    place = finding.place if finding.place is not None and finding.place.leaf is not None else None
    where = f", {shown(place, cwd)}" if place else ""
    gain = f"; without it about {finding.ceiling:.3g}× as fast" if finding.ceiling else ""
    gain += f", by workers at most {finding.by_workers:.2g}×" if finding.by_workers else ""
    return f"{finding.name} ({finding.code}{where}){gain}"
