"""Monitor logs in their three dialects: a stamp, GPU rows with or without units, the case; or one line.

=== 2026-02-17 13:41:08 ===           2026-02-17 13:41:08            2026-02-24 15:11:39 | GPU0=57%
0, 57 %, 4225 MiB, 24564 MiB, 120 W   0, 57, 4225, 24564, 120
current_case_note add_g1 in_progress  current_case add_g1
"""

from __future__ import annotations

import re

from stoker.ingest.source import Ledger, Reading, Source, number
from stoker.ingest.trace_builder import Collected, percent, seconds_of
from stoker.model.evidence import GpuTrace, Stage

_STAMP = re.compile(r"^(?:=+ *)?(\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(?:\.\d+)?)(?: *=+)?(?= *$| *\|)")
_ROW = re.compile(r"^(\d{1,2}), *(\d{1,3})(?: ?%)?,(.*)$")
_INLINE = re.compile(r"GPU(\d{1,2})=(\d{1,3}(?:\.\d+)?)%")
_CASE = re.compile(r"^current_case(?:_note)?[ =:]+(\S+)(?: +(\S+))?")
_INLINE_CASE = re.compile(r"\b(?:current_)?case[=: ]+(\S+)")
_STAGES = {stage.value: stage for stage in (Stage.PROBE, Stage.LONG, Stage.TEST, Stage.VIZ, Stage.EVAL)}
_NOT_A_CASE = frozenset({"none", "-", "null", "unknown"})

_Sample = tuple[str, float, float | None, float | None]


def recognise(source: Source) -> bool:
    lines = source.head.split("\n")
    stamped = any(_STAMP.match(line) for line in lines)
    rows = any(_ROW.match(line) for line in lines)
    inline = any(_STAMP.match(line) and _INLINE.search(line) for line in lines)
    return inline or (rows and (stamped or any(_CASE.match(line) for line in lines)))


def read(source: Source) -> Reading:
    log = _Log()
    for line, text in source.lines():
        first = text[:1]
        if first.isdigit() or first == "=":
            log.figures(line, text)
        elif first == "c" and (found := _CASE.match(text)):
            log.name(found[1], found[2])
    log.close_block()
    return Reading(log.traces(), log.ledger, tuple(log.notes()))


class _Log:
    """Blocks one after the other; the case is named below the figures, so a block is kept until it ends."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.kept: dict[tuple[str | None, Stage, str], Collected] = {}
        self.time_s: float | None = None
        self.block: list[_Sample] = []
        self.case: str | None = None
        self.stage = Stage.UNKNOWN

    def figures(self, line: int, text: str) -> None:
        if row := _ROW.match(text):
            self._row(line, text, row)
        elif stamp := _STAMP.match(text):
            self.close_block()
            self.time_s = seconds_of(stamp[1])
            self._inline(text)
        elif text[:2].rstrip(",").isdigit() and "," in text[:3]:
            self.ledger.add(line, "a GPU row that cannot be read", text)

    def _row(self, line: int, text: str, row: re.Match[str]) -> None:
        util = percent(float(row[2]))
        rest = row[3].split(",")
        if util is None:
            self.ledger.add(line, "utilisation outside 0-100", text)
            return
        if self.block and any(gpu == row[1] for gpu, *_ in self.block):  # a log without stamps
            self.close_block()
        total = number(rest[1]) if len(rest) > 1 else None
        self.block.append((row[1], util, number(rest[0]), total))

    def _inline(self, text: str) -> None:
        for gpu, shown in _INLINE.findall(text):
            if (util := percent(float(shown))) is not None:
                self.block.append((gpu, util, None, None))
        if self.block and (case := _INLINE_CASE.search(text)):
            self.name(case[1], None)

    def name(self, case: str, note: str | None) -> None:
        self.case = None if case.lower() in _NOT_A_CASE else case
        words = re.split(r"[^a-z]+", (note or "").lower())
        self.stage = next((_STAGES[word] for word in words if word in _STAGES), Stage.UNKNOWN)

    def close_block(self) -> None:
        for gpu, util, used, total in self.block:
            key = (self.case, self.stage, gpu)
            kept = self.kept.get(key)
            if kept is None:
                kept = self.kept[key] = Collected()
            kept.add(util, self.time_s, used, total)
        self.block = []
        self.case, self.stage = None, Stage.UNKNOWN

    def traces(self) -> tuple[GpuTrace, ...]:
        return tuple(
            kept.trace(gpu, case=case, stage=stage) for (case, stage, gpu), kept in self.kept.items()
        )

    def notes(self) -> list[str]:
        unnamed = sum(len(kept.util) for (case, _, _), kept in self.kept.items() if case is None)
        named = any(case is not None for case, _, _ in self.kept)
        return [f"{unnamed} samples name no case"] if unnamed and named else []
