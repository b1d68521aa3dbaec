"""Why: the verdict, and up to three causes with what there is to know of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from stoker.diagnose.places import shown
from stoker.diagnose.remedies import Remedy
from stoker.model.finding import Evidence, Finding, Outcome, Verdict
from stoker.report.gpu_blocks import SOURCES
from stoker.report.page import Block, Facts, Notes

CAUSES_SHOWN = 3
EVIDENCE_SHOWN = 3
REMEDIES_SHOWN = 3
_SOURCES = {str(source): name for source, name in SOURCES.items()} | {"gpm or nvml": "GPM or NVML"}


def cause_blocks(verdict: Verdict, cwd: str) -> list[Block]:
    """The verdict first, where it is not that there are causes."""
    worth = [finding for finding in verdict.findings if not _small(finding, verdict)]
    blocks: list[Block] = []
    if verdict.outcome is not Outcome.CAUSES:
        rows = [(str(verdict.outcome), verdict.text)]
        if verdict.would_tell:
            rows.append(("what would tell", verdict.would_tell))
        blocks.append(Facts(tuple(rows), "Why"))
    for number, finding in enumerate(worth[:CAUSES_SHOWN]):
        heading = "Why" if not blocks and not number else ""
        blocks.append(Facts(tuple(_rows(finding, cwd)), heading))
    if verdict.outcome is Outcome.CAUSES and verdict.would_tell:
        blocks.append(Facts((("cannot tell", verdict.would_tell),)))
    return blocks


def remedy_block(remedies: Sequence[Remedy]) -> Notes:
    """Advice that is often given, and would not help here."""
    lines = tuple(f"{one.advice}: {one.says}" for one in remedies[:REMEDIES_SHOWN])
    return Notes("Not worth trying", lines)


def _small(finding: Finding, verdict: Verdict) -> bool:
    """A healthy run is left alone."""
    return verdict.outcome is Outcome.HEALTHY and finding.in_code


def _rows(finding: Finding, cwd: str) -> list[tuple[str, str]]:
    rows = [(finding.code, f"{finding.says} ({finding.severity})")]
    rows.append(("evidence", _told(finding.evidence[:EVIDENCE_SHOWN])))
    if finding.place is not None and finding.place.leaf is not None:
        rows.append(("line", shown(finding.place, cwd)))
    made = finding.mend_at
    if made is not None and made.leaf is not None:  # by a library: your line need not be the one to change
        rows.append(("change" if made.leaf == made.user else "made at", shown(made, cwd)))
    rows.append(("if free", ceiling(finding)))
    fix = finding.fixes[0]
    after = re.sub(r"(?<!:)\n *", "; ", fix.after)
    after = re.sub(r"\n *", " ", after)
    rows.append(("fix", f"{fix.text}: {after}" if after else fix.text))
    return rows


def _told(evidence: Sequence[Evidence]) -> str:
    """With the source behind what is from it."""
    by_source = groupby(evidence, key=lambda one: one.source)
    return "; ".join(_from("; ".join(one.text for one in found), source) for source, found in by_source)


def _from(text: str, source: str) -> str:
    name = _SOURCES.get(source, source)
    return f"{text[:-1]}; {name})" if text.endswith(" (inferred)") else f"{text} ({name})"


def ceiling(finding: Finding) -> str:
    if finding.ceiling is None:
        return f"cannot be told: {finding.no_ceiling}"
    frac = finding.recoverable_frac or 0.0
    times = f"about {finding.ceiling:.3g}× as fast: it takes {100 * frac:.0f} % ({finding.recoverable_of})"
    less = finding.by_workers
    return f"{times}; by workers, on these cores, at most {less:.2g}×" if less else times
