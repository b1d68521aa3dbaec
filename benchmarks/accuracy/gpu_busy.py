"""Is a GPU's busy share right? Its counters against Kineto, over the same stretches of time, on six loops.

    PYTHONPATH=$PWD/src python benchmarks/accuracy/gpu_busy.py --out FILE [--quick] [--loop bursts]

Each loop of `gpu_loops.py` runs in a process of its own; this one asks the counters five times a second. Of a
loop's Kineto windows those readings count that lie in one as a whole, and Kineto's busy share is worked out
over the very same stretches. Furthest off allowed: 3 points, with GPM and with NVML alone; else the exit code
is 1. The six loops take about a minute.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from card import card, need_a_gpu
from gpu_counters import Counters, Reading, read_counters
from gpu_loops import LOOPS, Stretch

LIMIT = 3.0
INTERVAL_S = 0.2
SOURCES = ("gpm", "nvml")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loop", choices=LOOPS, action="append", help="only this one")
    parser.add_argument("--quick", action="store_true", help="one window of each loop instead of three")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    need_a_gpu()
    counters, facts = Counters(), card()
    names = args.loop or list(LOOPS)
    results = [told(measure(name, 1 if args.quick else 3, counters)) for name in names]
    offs = [abs(r["off"]) for result in results for r in result["sources"].values() if r["off"] is not None]
    print(f"furthest off: {max(offs, default=float('nan')):.2f} points (limit {LIMIT:g})")
    if args.out:
        report = {
            "schema": "stoker.benchmark.gpu_busy/1",
            **facts,
            "nvml_by": counters.nvml_by,
            "refused": counters.refused,
            "limit_points": LIMIT,
            "loops": results,
        }
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if offs and max(offs) <= LIMIT else 1


def told(result: dict[str, Any]) -> dict[str, Any]:
    words = []
    for source, r in result["sources"].items():
        figures = "no reading"
        if r["off"] is not None:
            figures = f"{r['counter_pct']:5.1f} against {r['truth_pct']:5.1f} % ({r['off']:+.2f})"
        words.append(f"{source} {figures}, {r['seconds']:.1f} s")
    print(f"{result['loop']:14}{'   '.join(words)}", flush=True)
    return result


def measure(name: str, windows: int, counters: Counters) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "windows.json")
        script = Path(__file__).with_name("gpu_loops.py")
        words = ["--loop", name, "--windows", str(windows), "--out", str(found)]
        readings = watch([sys.executable, str(script), *words], counters)
        content = json.loads(found.read_text())
    return {
        "loop": name,
        "sources": {s: compared([r for r in readings if r.source == s], content) for s in SOURCES},
        "windows": [about(window, readings) for window in content],
    }


def watch(command: list[str], counters: Counters) -> list[Reading]:
    """All readings while it runs."""
    readings: list[Reading] = []
    child, due = subprocess.Popen(command), time.monotonic()
    while child.poll() is None:
        readings += read_counters(counters)
        due += INTERVAL_S
        time.sleep(max(0.0, due - time.monotonic()))
    readings += read_counters(counters)
    if child.returncode:
        sys.exit(f"{command[1]} ended with {child.returncode}")
    return readings


def about(window: dict[str, Any], readings: list[Reading]) -> dict[str, Any]:
    length_s = window["end_s"] - window["begin_s"]
    kept = ("activities", "first_after_begin_ms", "last_before_end_ms")
    return {
        "seconds": round(length_s, 4),
        **{name: window[name] for name in kept},
        "kineto_pct": round(100 * total_s(window["busy"]) / length_s, 3),
        "kineto_kernels_pct": round(100 * total_s(window["kernels_busy"]) / length_s, 3),
        **{s: compared([r for r in readings if r.source == s], [window]) for s in SOURCES},
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


def compared(readings: Sequence[Reading], windows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The counter's mean and Kineto's, over the readings that lie in a window."""
    counter_s = busy_s = kernels_s = seconds = 0.0
    used = 0
    for window in windows:
        busy, kernels = Busy(window["busy"]), Busy(window["kernels_busy"])
        for reading in readings:
            if window["begin_s"] <= reading.begin_s and reading.end_s <= window["end_s"]:
                length_s = reading.end_s - reading.begin_s
                counter_s += reading.busy_pct / 100 * length_s
                busy_s += busy.between_s(reading.begin_s, reading.end_s)
                kernels_s += kernels.between_s(reading.begin_s, reading.end_s)
                seconds, used = seconds + length_s, used + 1
    if not used:
        return {"off": None, "readings": 0, "seconds": 0.0}
    shares = [100 * value / seconds for value in (counter_s, busy_s, kernels_s)]
    return {
        "counter_pct": round(shares[0], 3),
        "truth_pct": round(shares[1], 3),
        "truth_kernels_pct": round(shares[2], 3),
        "off": round(shares[0] - shares[1], 3),
        "readings": used,
        "seconds": round(seconds, 3),
    }


if __name__ == "__main__":
    sys.exit(main())
