"""Monitor logs in their three dialects: a stamp, GPU rows with or without units, the case; or one line.

=== 2026-02-17 13:41:08 ===           2026-02-17 13:41:08            2026-02-24 15:11:39 | GPU0=57%
0, 57 %, 4225 MiB, 24564 MiB, 120 W   0, 57, 4225, 24564, 120
current_case_note add_g1 in_progress  current_case add_g1
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from stoker.ingest.source import Ledger, Reading, Source, number
from stoker.ingest.trace_builder import Collected, percent, seconds_of
from stoker.model.evidence import GpuTrace, Stage

_STAMP = re.compile(r"^(?:=+ *)?(\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(?:\.\d+)?)(?: *=+)?(?= *$| *\|)")
_ROW = re.compile(r"^(\d{1,2}), *(\d{1,3})(?: ?%)?,(.*)$")
_INLINE = re.compile(r"GPU(\d{1,2})=(\d{1,3}(?:\.\d+)?)%")
_CASE = re.compile(r"^current_case(?:_note)?[ =:]+(\S+)(?: +(\S+))?")
_INLINE_CASE = re.compile(r"\b(?:current_)?case[=: ]+(\S+)")
_STAGES = {stage.value: stage for stage in (Stage.PROBE, Stage.LONG, Stage.TEST, Stage.VIZ, Stage.EVAL)}
_DIGITS = "0123456789"
_NOT_A_CASE = frozenset({"none", "-", "null", "unknown"})

_Sample = tuple[str, float, str, str]
_Key = tuple[str | None, Stage, str]


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
        if first == "=":
            log.stamp(text)
        elif first and first in _DIGITS:
            log.figures(line, text)
        elif first == "c" and (found := _CASE.match(text)):
            log.name(found[1], found[2])
    log.close_block()
    return Reading(log.traces(), log.ledger, tuple(log.notes()))


@dataclass
class _Kept:
    """Samples of one GPU in one case; sizes as they are written, a log has few different ones."""

    samples: Collected = field(default_factory=Collected)
    used: set[str] = field(default_factory=set)
    total: set[str] = field(default_factory=set)

    def trace(self, case: str | None, stage: Stage, gpu: str) -> GpuTrace:
        self.samples.mem_peak, self.samples.mem_total = _largest(self.used), _largest(self.total)
        return self.samples.trace(gpu, case=case, stage=stage)


class _Log:
    """Blocks one after the other; the case is named below the figures, so a block is kept until it ends."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.kept: dict[_Key, _Kept] = {}
        self.time_s: float | None = None
        self.block: list[_Sample] = []
        self.seen: set[str] = set()
        self.case: str | None = None
        self.stage = Stage.UNKNOWN
        self.utils: dict[str, float] = {}

    def figures(self, line: int, text: str) -> None:
        fields = text.split(", ")
        util = self.utils.get(fields[1]) if len(fields) > 1 else None
        if util is not None and len(fields[0]) <= 2 and fields[0].isdigit():
            self._sample(fields[0], util, fields)
        elif row := _ROW.match(text):
            self._row(line, text, row)
        elif not self.stamp(text) and text[:2].rstrip(",").isdigit() and "," in text[:3]:
            self.ledger.add(line, "a GPU row that cannot be read", text)

    def stamp(self, text: str) -> bool:
        found = _STAMP.match(text)
        if found is None:
            return False
        self.close_block()
        self.time_s = seconds_of(found[1])
        if "GPU" in text:
            self._inline(text)
        return True

    def _row(self, line: int, text: str, row: re.Match[str]) -> None:
        util = percent(float(row[2]))
        fields = [word.strip() for word in text.split(",")]
        if util is None:
            self.ledger.add(line, "utilisation outside 0-100", text)
            return
        self.utils[fields[1]] = util
        self._sample(fields[0], util, fields)

    def _sample(self, gpu: str, util: float, fields: list[str]) -> None:
        if gpu in self.seen:  # a log without stamps
            self.close_block()
        self.seen.add(gpu)
        self.block.append(
            (gpu, util, fields[2] if len(fields) > 2 else "", fields[3] if len(fields) > 3 else "")
        )

    def _inline(self, text: str) -> None:
        for gpu, shown in _INLINE.findall(text):
            if (util := percent(float(shown))) is not None:
                self._sample(gpu, util, [])
        if self.block and (case := _INLINE_CASE.search(text)):
            self.name(case[1], None)

    def name(self, case: str, note: str | None) -> None:
        self.case = None if case.lower() in _NOT_A_CASE else case
        words = re.split(r"[^a-z]+", (note or "").lower())
        self.stage = next((_STAGES[word] for word in words if word in _STAGES), Stage.UNKNOWN)

    def close_block(self) -> None:
        case, stage, time_s = self.case, self.stage, self.time_s
        for gpu, util, used, total in self.block:
            kept = self.kept.get((case, stage, gpu))
            if kept is None:
                kept = self.kept[case, stage, gpu] = _Kept()
            kept.samples.util.append(util)
            if time_s is not None:
                kept.samples.times.append(time_s)
            kept.used.add(used)
            kept.total.add(total)
        self.block, self.seen = [], set()
        self.case, self.stage = None, Stage.UNKNOWN

    def traces(self) -> tuple[GpuTrace, ...]:
        return tuple(kept.trace(case, stage, gpu) for (case, stage, gpu), kept in self.kept.items())

    def notes(self) -> list[str]:
        unnamed = sum(len(kept.samples.util) for (case, _, _), kept in self.kept.items() if case is None)
        named = any(case is not None for case, _, _ in self.kept)
        return [f"{unnamed} samples name no case"] if unnamed and named else []


def _largest(sizes: set[str]) -> float | None:
    figures = [figure for size in sizes if (figure := number(size)) is not None and figure > 0]
    return max(figures, default=None)
