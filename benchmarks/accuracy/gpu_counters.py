"""How busy a GPU says it was: readings of its counters, each with the stretch of time it speaks of.

`read_counters` asks through the product's own seam, with GPM and without (STOKER_NO_GPM). Times are of the
wall clock (`time.time()`), the one Kineto uses, too.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from stoker.outside.gpu.nvml import NO_GPM, find_gpus
from stoker.outside.gpu.seam import Answers, GpmInterval, Gpus, Refused, UtilSamples, known


@dataclass(frozen=True, slots=True)
class Reading:
    source: str
    """gpm; samples (NVML's, beside GPM); nvml (the same without GPM)"""
    begin_s: float
    end_s: float
    busy_pct: float


@dataclass
class Counters:
    """The first card. What is not supported gives no readings, and `refused` says why."""

    with_gpm: Gpus
    without: Gpus
    refused: dict[str, str] = field(default_factory=dict)
    nvml_by: str = "samples"
    asked_s: float | None = None


def open_counters() -> Counters:
    before = os.environ.pop(NO_GPM, None)
    with_gpm = find_gpus()
    os.environ[NO_GPM] = "1"
    without = find_gpus()
    del os.environ[NO_GPM]
    if before is not None:
        os.environ[NO_GPM] = before
    return Counters(with_gpm, without)


def read_counters(counters: Counters) -> list[Reading]:
    """What the card says since the last call; to be asked more than 100 ms apart."""
    readings = []
    for source, gpus in (("samples", counters.with_gpm), ("nvml", counters.without)):
        begin_s = time.time()
        answers = gpus.ask(0, dear=True)
        if source == "samples":
            readings += of_gpm(answers, begin_s, counters.refused)
        told = of_samples(answers.samples, source, time.time(), counters.refused)
        if isinstance(answers.samples, Refused):
            counters.nvml_by = "polling"
            told = _of_rate(answers, source, counters.asked_s, begin_s)
        readings += told
    counters.asked_s = begin_s
    return readings


def of_gpm(answers: Answers, asked_s: float, refused: dict[str, str]) -> list[Reading]:
    """The newer of its two samples is taken first thing when asked."""
    if isinstance(answers.gpm, Refused):
        refused["gpm"] = answers.gpm.reason
    if not isinstance(answers.gpm, GpmInterval):
        return []
    busy_pct = known(answers.gpm.metrics["graphics"])
    if busy_pct is None:
        return []
    return [Reading("gpm", asked_s - answers.gpm.seconds, asked_s, busy_pct)]


def of_samples(
    told: UtilSamples | Refused | None, source: str, now_s: float, refused: dict[str, str]
) -> list[Reading]:
    """Each is of the time since the one before it."""
    if isinstance(told, Refused):
        refused["samples"] = told.reason
    if not isinstance(told, UtilSamples) or not told.samples:
        return []
    rows = sorted(told.samples)
    shift_s = wall_shift_s(rows[-1][0] / 1e6, now_s)
    edges = [told.since_us, *(stamp for stamp, _ in rows)]
    return [
        Reading(source, before / 1e6 + shift_s, stamp / 1e6 + shift_s, value)
        for before, (stamp, value) in zip(edges, rows, strict=False)
        if before is not None  # of the very first one it is not known where it begins
    ]


def _of_rate(answers: Answers, source: str, before_s: float | None, now_s: float) -> list[Reading]:
    rate = known(answers.utilization_pct)
    return [] if rate is None or before_s is None else [Reading(source, before_s, now_s, float(rate))]


def wall_shift_s(stamp_s: float, now_s: float) -> float:
    """From the driver's clock to the wall clock. It is the wall clock on the drivers seen so far (580)."""
    return 0.0 if abs(now_s - stamp_s) < 60.0 else now_s - stamp_s
