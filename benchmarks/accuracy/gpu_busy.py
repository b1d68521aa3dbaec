"""Is a GPU's busy share right? Its counters against Kineto, on six loops, in two ways. More loops beside, not
judged, tell why a counter is off (`gpu_loops.ASIDE`).

    PYTHONPATH=$PWD/src python benchmarks/accuracy/gpu_busy.py --out FILE [--quick] [--loop bursts]

`gpu_loops.py` runs the loops in a process of its own; this one asks the counters five times a second through
the product's seam, with its rule for copies (`gpu_view.copying_pct`).
*Same window*: the readings that lie in a Kineto window as a whole, against Kineto's busy share of the very
same stretches. Kineto slows the host there, and may itself keep the card busy.
*Same loop unprofiled*: the readings right before and after the windows, against the work of one iteration as
Kineto saw it, over the time that an iteration took there. This one is judged: furthest off allowed are 3
points, with GPM and with NVML alone; else the exit code is 1.
The loops take about 140 s, all of it 180 s or more; figures come at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from card import command
from gpu_counters import Counters, Reading, open_counters, read_counters
from gpu_loops import ASIDE, LOOPS, Stretch

from stoker.diagnose.deep import behind_s, less_behind
from stoker.diagnose.gpu_view import copying_pct

LIMIT = 3.0
INTERVAL_S = 0.2
SOURCES = ("gpm", "nvml")
WAYS = {
    "same_window": "same window",
    "unprofiled": "same loop unprofiled",
    "before_any_profiler": "before any profiler",
}
JUDGED = "unprofiled"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loop", choices={**LOOPS, **ASIDE}, action="append", help="only this one")
    parser.add_argument("--quick", action="store_true", help="one window of each loop instead of five")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    counters = open_counters()
    if not counters.with_gpm.describe().devices:
        print(f"gpu_busy.py needs an NVIDIA GPU: {counters.with_gpm.describe().reason}", file=sys.stderr)
        return 2
    content, readings = run_loops(args.loop or [], 1 if args.quick else 5, counters)
    results = [told(judged_loop(name, loop, readings)) for name, loop in content["loops"].items()]
    judged = [result for result in results if result["loop"] in LOOPS]
    offs = [abs(off) for result in judged for off in result["off"].values() if off is not None]
    print(f"furthest off, {WAYS[JUDGED]}: {max(offs, default=float('nan')):.2f} points (limit {LIMIT:g})")
    print(f"the loops took {content['seconds']:.0f} s")
    if args.out:
        report = {
            "schema": "stoker.benchmark.gpu_busy/2",
            **content["card"],
            "command": command(),
            "nvml_by": counters.nvml_by,
            "refused": counters.refused,
            "limit_points": LIMIT,
            "judged": JUDGED,
            "loops_took_s": content["seconds"],
            "loops": results,
        }
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    complete = len(offs) == len(SOURCES) * len(judged)
    return 0 if complete and max(offs, default=0.0) <= LIMIT else 1


def told(result: dict[str, Any]) -> dict[str, Any]:
    print(
        f"{result['loop']}: an iteration takes {result['iteration_ms']:.2f} ms, under Kineto "
        f"{result['slowed_pct']:+.1f} %, before any profiler {result['first_iteration_ms']:.2f} ms; the card "
        f"counts {result['beyond_us']} us beyond each piece of work"
    )
    for way, title in WAYS.items():
        words = [f"  {title:21}"]
        for source, r in result[way].items():
            figures = "no reading"
            if r["off"] is not None:
                figures = f"{r['counter_pct']:5.1f} against {r['truth_pct']:5.1f} % ({r['off']:+.2f})"
            words.append(f"{source} {figures}, {r['seconds']:.1f} s")
        print("   ".join(words), flush=True)
    print(f"  with a deep window, as Stoker shows it: {result['with_deep_off']}", flush=True)
    return result


def run_loops(names: list[str], windows: int, counters: Counters) -> tuple[dict[str, Any], list[Reading]]:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "windows.json")
        script = Path(__file__).with_name("gpu_loops.py")
        words = ["--windows", str(windows), "--out", str(found)]
        words += [word for name in names for word in ("--loop", name)]
        readings = watch([sys.executable, str(script), *words], counters)
        return json.loads(found.read_text()), readings


def watch(command: list[str], counters: Counters) -> list[Reading]:
    """All readings while it runs."""
    readings: list[Reading] = []
    child, due = subprocess.Popen(command), time.monotonic()
    while child.poll() is None:
        readings += read_counters(counters)
        due = max(due + INTERVAL_S, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    readings += read_counters(counters)
    if child.returncode:
        sys.exit(child.returncode)
    return readings


def judged_loop(name: str, loop: dict[str, Any], readings: Sequence[Reading]) -> dict[str, Any]:
    windows, between, first = loop["windows"], loop["between"], loop["first"]
    work_s = [total_s(window["busy"]) / window["iterations"] for window in windows]
    ways = {
        "same_window": by_source(readings, lambda found: compared(found, windows)),
        "unprofiled": by_source(readings, lambda found: unprofiled(found, between, beside(work_s))),
        "before_any_profiler": by_source(readings, lambda found: unprofiled(found, [first], [mean(work_s)])),
    }
    iteration_ms, slow_ms = 1000 * iteration_s(between), 1000 * iteration_s(windows)
    pieces = sum(window["activities"] for window in windows) / sum(w["iterations"] for w in windows)
    offs = {source: r["off"] for source, r in ways[JUDGED].items()}
    beyond_us = {
        source: None if off is None or not pieces else round(10 * off * iteration_ms / pieces, 3)
        for source, off in offs.items()
    }
    return {
        "loop": name,
        "off": offs,
        "beyond_us": beyond_us,
        "with_deep_off": with_deep(windows, between, readings),
        "work_ms": round(1000 * mean(work_s), 4),
        "iteration_ms": round(iteration_ms, 4),
        "first_iteration_ms": round(1000 * iteration_s([first]), 4),
        "slowed_pct": round(100 * (slow_ms / iteration_ms - 1), 2),
        **ways,
        "windows": [about(window) for window in windows],
    }


def iteration_s(stretches: Sequence[dict[str, Any]]) -> float:
    seconds = sum(stretch["end_s"] - stretch["begin_s"] for stretch in stretches)
    return seconds / sum(stretch["iterations"] for stretch in stretches)


def beside(work_s: Sequence[float]) -> list[float]:
    """Of the stretches between the windows: the mean of the windows on both sides."""
    return [mean(work_s[max(0, n - 1) : n + 1]) for n in range(len(work_s) + 1)]


def with_deep(
    windows: Sequence[dict[str, Any]], between: Sequence[dict[str, Any]], readings: Sequence[Reading]
) -> dict[str, float]:
    """How far off is what the product shows where there is a deep window? The first window stands for it, the
    others and the stretches between them are judged."""
    deep, others, later = windows[0], windows[1:], between[2:]
    if not others:
        return {}
    busy_s = total_s(deep["busy"])
    behind = behind_s((earlier[1], later[0]) for earlier, later in pairwise(deep["busy"]))
    work_s = [total_s(window["busy"]) / window["iterations"] for window in others]
    ways = {
        "same_window": (others, by_source(readings, lambda found: compared(found, others))),
        "unprofiled": (
            later,
            by_source(readings, lambda found: unprofiled(found, later, beside(work_s)[1:])),
        ),
    }
    offs: dict[str, float] = {}
    for way, (stretches, found) in ways.items():
        usual = busy_s / deep["iterations"] / iteration_s(stretches)
        for source, r in found.items():
            if r["off"] is not None:
                shown = less_behind(r["counter_pct"] / 100, min(1.0, usual), busy_s, behind)
                offs[f"{way}, {source}"] = round(100 * shown - r["truth_pct"], 3)
    return offs


def by_source(
    readings: Sequence[Reading], compare: Callable[[Sequence[Reading]], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    found = {
        source: compare([reading for reading in readings if reading.source == source])
        for source in ("gpm", "samples", "nvml")
    }
    return {"gpm": with_copies(found["gpm"], found["samples"]), "nvml": found["nvml"]}


def with_copies(gpm: dict[str, Any], samples: dict[str, Any]) -> dict[str, Any]:
    """The product's rule: GPM sees kernels only, what NVML saw more are copies."""
    if gpm["off"] is None or samples["off"] is None:
        return gpm
    copies_pct = copying_pct(gpm["counter_pct"], samples["counter_pct"])
    busy_pct = gpm["counter_pct"] + copies_pct
    return {
        **gpm,
        "counter_pct": round(busy_pct, 3),
        "off": round(busy_pct - gpm["truth_pct"], 3),
        "gpm_alone_pct": gpm["counter_pct"],
        "copying_pct": round(copies_pct, 3),
    }


def about(window: dict[str, Any]) -> dict[str, Any]:
    length_s = window["end_s"] - window["begin_s"]
    kept = ("iterations", "activities", "first_after_begin_ms", "last_before_end_ms")
    return {
        "seconds": round(length_s, 4),
        **{name: window[name] for name in kept},
        "kineto_pct": round(100 * total_s(window["busy"]) / length_s, 3),
        "kineto_kernels_pct": round(100 * total_s(window["kernels_busy"]) / length_s, 3),
    }


def total_s(stretches: Sequence[Sequence[float]]) -> float:
    return sum(end - begin for begin, end in stretches)


class Busy:
    """Sorted stretches of work; how much of them lies before a moment."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self.begins = [begin for begin, _ in stretches]
        self.stretches = stretches
        self.sums = [0.0]
        for begin, end in stretches:
            self.sums.append(self.sums[-1] + end - begin)

    def before_s(self, moment: float) -> float:
        count = bisect_right(self.begins, moment)
        late = max(0.0, self.stretches[count - 1][1] - moment) if count else 0.0
        return self.sums[count] - late

    def between_s(self, begin: float, end: float) -> float:
        return self.before_s(end) - self.before_s(begin)


def within(readings: Sequence[Reading], stretch: dict[str, Any]) -> list[Reading]:
    begin_s, end_s = stretch["begin_s"], stretch["end_s"]
    return [reading for reading in readings if begin_s <= reading.begin_s and reading.end_s <= end_s]


def compared(readings: Sequence[Reading], windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The counter's mean and Kineto's, over the readings that lie in a window."""
    rows = []
    for window in windows:
        busy, kernels = Busy(window["busy"]), Busy(window["kernels_busy"])
        for reading in within(readings, window):
            work_s, kernels_s = (one.between_s(reading.begin_s, reading.end_s) for one in (busy, kernels))
            rows.append((reading, work_s, kernels_s))
    result = shares([(reading, work_s) for reading, work_s, _ in rows])
    if rows:
        seconds = sum(reading.end_s - reading.begin_s for reading, _, _ in rows)
        result["truth_kernels_pct"] = round(100 * sum(row[2] for row in rows) / seconds, 3)
    return result


def unprofiled(
    readings: Sequence[Reading], stretches: Sequence[dict[str, Any]], work_s: Sequence[float]
) -> dict[str, Any]:
    """The counter's mean, and the work of an iteration over the time one took; of each stretch its own."""
    rows = []
    for stretch, of_one_s in zip(stretches, work_s, strict=True):
        share = of_one_s / iteration_s([stretch])
        found = within(readings, stretch)
        rows += [(reading, share * (reading.end_s - reading.begin_s)) for reading in found]
    return shares(rows)


def shares(rows: Sequence[tuple[Reading, float]]) -> dict[str, Any]:
    """Of readings with the work that was done in their time."""
    seconds = sum(reading.end_s - reading.begin_s for reading, _ in rows)
    if not rows or not seconds:
        return {"off": None, "readings": 0, "seconds": 0.0}
    counter_pct = sum(r.busy_pct * (r.end_s - r.begin_s) for r, _ in rows) / seconds
    truth_pct = 100 * sum(work_s for _, work_s in rows) / seconds
    return {
        "counter_pct": round(counter_pct, 3),
        "truth_pct": round(truth_pct, 3),
        "off": round(counter_pct - truth_pct, 3),
        "readings": len(rows),
        "seconds": round(seconds, 3),
    }


if __name__ == "__main__":
    sys.exit(main())
