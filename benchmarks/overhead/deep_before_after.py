"""Is a loop as fast after a deep window as before it? From recordings that are there; nothing is run.

    python benchmarks/overhead/deep_before_after.py [DIR …] [--out FILE]

Without folders: the recordings of the lab on a GPU, in tests/recordings/lab. Compared are the medians of the
ticks before and after the stage `deep`. *Before* is the later half of what was there: the scripts of later
sets begin with ticks that are healthy, to be measured. A few seconds of a loop tell something only where it
is *steady*: on either side of the window the medians of the first and the second half are within DRIFT_MAX of
each other, and half of all ticks within SPREAD_MAX.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / name) for name in ("accuracy", "pathologies")]

from beside import deep_stage  # noqa: E402
from card import command  # noqa: E402
from recording import unpacked  # noqa: E402

from stoker.model.record import ProcessRecord, Tick  # noqa: E402
from stoker.model.run import Run  # noqa: E402
from stoker.store.reading import load  # noqa: E402

RECORDINGS = ROOT / "tests" / "recordings" / "lab"
DRIFT_MAX, SPREAD_MAX = 0.03, 0.10
SETTLED_S = 1e-6
"""Moments are written in microseconds."""
KINDS = {"steady": True, "not_steady": False}
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, default=[RECORDINGS])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    paths = sorted(path for folder in args.folders for path in folder.rglob("*-cuda-*.tar.xz"))
    rows = [row for path in paths for row in told(path)]
    steady = {name: [row for row in rows if row["steady"] is wanted] for name, wanted in KINDS.items()}
    report = {
        "schema": "stoker.benchmark.deep_before_after/1",
        "date": time.strftime("%Y-%m-%d"),
        "command": command(),
        "recorded": sorted({row["recorded"] for row in rows}),
        "drift_max": DRIFT_MAX,
        "spread_max": SPREAD_MAX,
        **{name: summary(group) for name, group in steady.items()},
        "recordings": rows,
    }
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    for name, group in steady.items():
        print(f"{name}: {summary(group)}")
        for row in group:
            print(f"  {row['recording']:44}{row['before_ms']:9.3f}{row['after_ms']:9.3f}{row['ratio']:7.3f}")


def told(path: Path) -> Iterator[Row]:
    """Nothing of a run without a window, or whose window was broken off."""
    with tempfile.TemporaryDirectory() as folder:
        planted, place, _ = unpacked(path, Path(folder))
        run, stage = load(place), deep_stage(place)
    record = run.trainers[0]
    if stage is not None and record.deep is not None and record.deep.taken:
        before, after = sides(record.ticks, stage)
        yield {
            "recording": path.name.removesuffix(".tar.xz"),
            "recorded": planted["date"],
            **versions(run, record),
            **compared(before, after),
            "teardown_s": record.deep.stall_s.get("teardown"),
        }


def sides(ticks: Sequence[Tick], stage: tuple[float, float]) -> tuple[list[float], list[float]]:
    """Seconds of each tick before the stage, as far as they count, and after it."""
    begin_s, end_s = stage
    before = [tick.duration_s for tick in ticks if tick.end_s <= begin_s + SETTLED_S]
    after = [tick.duration_s for tick in ticks if tick.end_s - tick.duration_s >= end_s - SETTLED_S]
    return before[len(before) // 2 :], after


def versions(run: Run, record: ProcessRecord) -> Row:
    gpu = run.gpu
    assert gpu is not None
    named = {"gpu": gpu.devices[0].name, "driver": gpu.header.driver}
    return {**named, "torch": record.torch, "python": record.python, "stoker": run.info.stoker}


def compared(before: Sequence[float], after: Sequence[float]) -> Row:
    sides = (before, after)
    medians_s, drifts, spreads = (
        [of(side) for side in sides] for of in (statistics.median, drift_of, spread_of)
    )
    return {
        "ticks": [len(side) for side in sides],
        "before_ms": round(1e3 * medians_s[0], 4),
        "after_ms": round(1e3 * medians_s[1], 4),
        "ratio": round(medians_s[1] / medians_s[0], 4),
        "drifts": [round(drift, 4) for drift in drifts],
        "spreads": [round(spread, 4) for spread in spreads],
        "steady": max(map(abs, drifts)) <= DRIFT_MAX and max(spreads) <= SPREAD_MAX,
    }


def drift_of(side: Sequence[float]) -> float:
    """By how much its second half is slower than its first."""
    middle = len(side) // 2
    return statistics.median(side[middle:]) / statistics.median(side[:middle]) - 1


def spread_of(side: Sequence[float]) -> float:
    """Between the quartiles, as a share of the median."""
    low, middle, high = statistics.quantiles(side, n=4)
    return (high - low) / middle


def summary(rows: Sequence[Row]) -> Row:
    ratios = [row["ratio"] for row in rows]
    return {
        "recordings": len(rows),
        "median": round(statistics.median(ratios), 4),
        "least": min(ratios),
        "most": max(ratios),
        "within_2_pct": sum(abs(ratio - 1) <= 0.02 for ratio in ratios),
        "more_than_5_pct_slower": sum(ratio > 1.05 for ratio in ratios),
    }


if __name__ == "__main__":
    main()
