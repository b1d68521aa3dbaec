"""The verdict and its findings as plain data, for JSON."""

from __future__ import annotations

from dataclasses import asdict

from stoker.model.finding import Finding, Verdict


def verdict_data(verdict: Verdict) -> dict[str, object]:
    return {
        "outcome": str(verdict.outcome),
        "text": verdict.text,
        "would_tell": verdict.would_tell or None,
        "findings": [_finding(one) for one in verdict.findings],
    }


def _finding(one: Finding) -> dict[str, object]:
    return {**asdict(one), "no_ceiling": one.no_ceiling or None, "ceiling": one.ceiling, "docs": one.docs}
