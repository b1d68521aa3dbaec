"""How often a window called steady is right, on ticks that were really recorded.

    python benchmarks/steady/real.py RUN_FOLDER… [--starts 30] [--out FILE]

The truth is the mean of the whole long run, after its warm-up. Pieces of the run as long as a claim needs
(3,000 ticks or 3 minutes, whichever comes first), from evenly spread beginnings, the first one with the
warm-up in it, are given to the judge that `stoker why` uses; half and a fifth of that length as screening.
A run says little unless it is at least three times as long as one piece: this is told. Also for a file of
ticks (`inside/*.tail0.tsv`) in place of a folder.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections import Counter
from pathlib import Path

from stoker import __version__
from stoker.diagnose.pace import Pace, of_ticks
from stoker.diagnose.steady import CONFIRM_S, CONFIRM_SAMPLES, Verdict, judge, warmup_samples
from stoker.inside import wire
from stoker.store.rows import tsv_pairs

LIMITS = {Verdict.STEADY: 0.02, Verdict.SCREENING: 0.10}
LENGTHS = {"claim": 1.05, "half": 0.5, "fifth": 0.2}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_FOLDER")
    parser.add_argument("--starts", type=int, default=30, help="pieces of each length")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    scores = [
        scored
        for path in args.runs
        for name, durations_s in processes(path)
        if (scored := score(name, durations_s, args.starts)) is not None
    ]
    for row in scores:
        print(json.dumps(row))
    claims = [row["lengths"]["claim"] for row in scores if "claim" in row["lengths"]]
    declared, right = sum(c["declared"] for c in claims), sum(c["right"] for c in claims)
    print(f"{len(scores)} processes; {right} of {declared} windows called steady are within 2 % of the whole")
    if args.out:
        result = {
            "what": "windows called steady that are right, on recorded ticks",
            "date": time.strftime("%Y-%m-%d"),
            "command": f"python benchmarks/steady/real.py RUN_FOLDER… --starts {args.starts}",
            "versions": {"stoker": __version__, "python": platform.python_version()},
            "declared": declared,
            "right": right,
            "processes": scores,
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if scores else 2


def processes(path: Path) -> list[tuple[str, list[float]]]:
    """Name and tick times of each process with enough ticks."""
    if path.is_file():
        return [(path.stem, [took / 1e6 for _, took in sorted(tsv_pairs(path))])]
    found = []
    for first in sorted((path / "inside").glob(f"*.{wire.TAILS[0]}.tsv")):
        stem = first.name.removesuffix(f".{wire.TAILS[0]}.tsv")
        rows = {}
        for name in ("first", *wire.TAILS):
            if (part := first.with_name(f"{stem}.{name}.tsv")).exists():
                rows |= dict(tsv_pairs(part))
        found.append((f"{path.name} {stem}", whole_stretch(rows)))
    return found


def whole_stretch(rows: dict[int, int]) -> list[float]:
    """The last ticks without a hole: of a long run the middle is not in the files."""
    found: list[float] = []
    before = None
    for end_us, took_us in sorted(rows.items(), reverse=True):
        if before is not None and before - end_us > 60e6:
            break
        found.append(took_us / 1e6)
        before = end_us - took_us
    return found[::-1]


def score(name: str, durations_s: list[float], starts: int) -> dict | None:
    whole = of_ticks(durations_s)
    if whole is None or len(durations_s) < 200:
        return None
    sample = whole.sample_ticks()
    cut = warmup_samples(whole.tick_s(0, sample, whole.total_ticks // sample))[0] * sample
    truth_per_s = (whole.total_ticks - cut) / (whole.seconds - whole.at(cut))
    needed_s = min(CONFIRM_S, CONFIRM_SAMPLES * whole.group_ticks() * whole.seconds / whole.total_ticks)
    verdict = judge(whole)
    return {
        "process": name,
        "ticks": whole.total_ticks,
        "seconds": round(whole.seconds, 1),
        "truth_per_s": truth_per_s,
        "whole_run": verdict.phrase,
        "long_enough": whole.seconds >= 3 * needed_s,
        "lengths": {
            length: pieces(whole, durations_s, needed_s * share, truth_per_s, starts)
            for length, share in LENGTHS.items()
            if whole.seconds >= needed_s * share
        },
    }


def pieces(whole: Pace, durations_s: list[float], length_s: float, truth_per_s: float, starts: int) -> dict:
    declared, right, refused, worst = 0, 0, Counter(), 0.0
    for number in range(starts):
        begin_s = (whole.seconds - length_s) * number / max(1, starts - 1)
        first, last = (round(whole.tick_at(begin_s + more)) for more in (0, length_s))
        pace = of_ticks(durations_s[first:last])
        found = judge(pace) if pace else None
        if found is None or found.verdict is Verdict.UNSTEADY or found.ticks_per_s is None:
            refused[str(found.reason) if found else "too short"] += 1
            continue
        error = found.ticks_per_s / truth_per_s - 1
        declared += 1
        right += abs(error) <= LIMITS[found.verdict]
        worst = max(worst, error, key=abs)
    return {
        "length_s": round(length_s, 1),
        "pieces": starts,
        "declared": declared,
        "right": right,
        "worst_error": worst,
        "refused_for": dict(refused),
    }


if __name__ == "__main__":
    sys.exit(main())
