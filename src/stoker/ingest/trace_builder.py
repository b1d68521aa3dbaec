"""Samples collected per GPU (and per case, where a log names it) until they become traces."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from stoker.model.evidence import GpuTrace, Stage

_STAMP = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})[ T](\d{1,2}):(\d{2}):(\d{2}(?:\.\d{1,9})?)")
_SECONDS_PER_DAY = 86_400


def seconds_of(stamp: str) -> float | None:
    """`2026/02/17 13:41:08.123` (also `-`, `T`) as seconds of an arbitrary origin; fast on the usual form."""
    try:
        day = _day(stamp[:10])
        second = float(stamp[17:])
        if day is not None and 0 <= second < 61:  # also refuses nan
            return day * _SECONDS_PER_DAY + int(stamp[11:13]) * 3600 + int(stamp[14:16]) * 60 + second
    except ValueError:
        pass
    found = _STAMP.search(stamp)
    day = _day(f"{found[1]}-{found[2]:>02}-{found[3]:>02}") if found else None
    if found is None or day is None:
        return None
    return day * _SECONDS_PER_DAY + int(found[4]) * 3600 + int(found[5]) * 60 + float(found[6])


@lru_cache(maxsize=1024)
def _day(text: str) -> int | None:
    try:
        return date(int(text[:4]), int(text[5:7]), int(text[8:10])).toordinal()
    except ValueError:
        return None


@dataclass
class Collected:
    """One GPU's samples so far."""

    util: array[float] = field(default_factory=lambda: array("f"))
    times: array[float] = field(default_factory=lambda: array("d"))
    mem_peak: float | None = None
    mem_total: float | None = None

    def add(
        self, util: float | None, time_s: float | None, used: float | None = None, total: float | None = None
    ) -> None:
        self.util.append(float("nan") if util is None else util)
        if time_s is not None:
            self.times.append(time_s)
        self.mem_peak = larger(self.mem_peak, used)
        self.mem_total = larger(self.mem_total, total)

    def trace(
        self, gpu: str, *, case: str | None = None, stage: Stage = Stage.UNKNOWN, poll_s: float | None = None
    ) -> GpuTrace:
        clocked = len(self.times) == len(self.util) and len(self.times) > 1
        return GpuTrace(
            gpu=gpu,
            util_pct=self.util,
            times_s=self.times if clocked else None,
            poll_s=None if clocked else poll_s,
            mem_peak_mib=self.mem_peak,
            mem_total_mib=self.mem_total,
            case=case,
            stage=stage,
        )


def larger(old: float | None, new: float | None) -> float | None:
    if new is None or new < 0:
        return old
    return new if old is None or new > old else old


def percent(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= 100 else None
