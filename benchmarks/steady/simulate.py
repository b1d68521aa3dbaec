"""How often a window called steady is right, on tick times whose true speed is known.

    python benchmarks/steady/simulate.py design [--replicates 60]
    python benchmarks/steady/simulate.py held-out [--replicates 60] [--out FILE]

Each replicate draws the length of a tick and of the run (1.1 to 4 times what a claim needs, 3,000 ticks or
3 minutes; `--screening`: 0.15 to 0.9 times), and gives the ticks to the judge that `stoker why` uses. Scores
per family: the share called steady, and of those the share within 2 % of the truth (10 % when screening).
Where there is no true speed, or fewer than one run in ten is called steady, the answer is "unsteady" and the
score is the share of runs that were not called steady wrongly: of one or two windows there is no share. The
plain mean and the pooled share, without that rule, are in the result, too.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import sys
import time
from collections import Counter
from pathlib import Path

from traces import DESIGN, FIRST_HELD_OUT, HELD_OUT, TICKS_S, Family, trace

from stoker import __version__
from stoker.diagnose.pace import of_ticks
from stoker.diagnose.steady import CONFIRM_S, CONFIRM_SAMPLES, Steadiness, Verdict, judge

SETS = {"design": DESIGN, "first-held-out": FIRST_HELD_OUT, "held-out": HELD_OUT}
FEW = 0.1
SEED = {"design": 1_000, "first-held-out": 500_000, "held-out": 900_000}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--replicates", type=int, default=60, help="runs of each family")
    parser.add_argument("--screening", action="store_true", help="runs too short for a claim")
    parser.add_argument("--only", help="one family")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    scores = [
        score(args.set, name, about, family, args.replicates, args.screening)
        for name, (about, family) in SETS[args.set].items()
        if args.only in (None, name)
    ]
    result = summary(args.set, scores, args.replicates, args.screening)
    for row in scores:
        print(line(row))
    print(
        f"mean over families: {100 * result['mean_score']:.1f} %; plain mean of those with windows called "
        f"steady: {100 * result['plain_mean_of_declared']:.1f} %; "
        f"pooled: {100 * result['pooled_of_declared']:.1f} %"
    )
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


def score(which: str, name: str, about: str, family: Family, replicates: int, screening: bool) -> dict:
    limit = 0.10 if screening else 0.02
    declared, right, covered, reasons, errors = 0, 0, 0, Counter(), []
    truths = 0
    for number in range(replicates):
        chance = random.Random(f"{which} {name} {number} {screening}")
        tick_s = chance.choice(TICKS_S)
        needed = min(CONFIRM_SAMPLES, CONFIRM_S / tick_s)
        share = (
            chance.uniform(0.15, 0.9) if screening else math.exp(chance.uniform(math.log(1.1), math.log(4)))
        )
        made = trace(family, SEED[which] + number, tick_s, round(needed * share))
        pace = of_ticks(made.durations_s)
        assert pace is not None
        found = judge(pace, made.periods)
        truths += made.truth_s is not None
        if found.verdict is Verdict.UNSTEADY:
            reasons[str(found.reason)] += 1
            continue
        declared += 1
        if made.truth_s is not None and found.ticks_per_s:
            error = found.ticks_per_s * made.truth_s - 1
            errors.append(error)
            right += abs(error) <= limit
            covered += _covers(found, 1 / made.truth_s)
    counts = truths > 0 and declared >= FEW * replicates
    return {
        "family": name,
        "about": about,
        "has_truth": truths > 0,
        "runs": replicates,
        "declared": declared / replicates,
        "right": right / declared if declared and truths else None,
        "score": right / declared if counts else 1 - (declared - right) / replicates,
        "declared_runs": declared,
        "right_runs": right,
        "covered": covered / declared if declared and truths else None,
        "worst_error": max(errors, key=abs) if errors else None,
        "refused_for": dict(reasons),
    }


def _covers(found: Steadiness, truth_per_s: float) -> bool:
    return (found.low_per_s or 0) <= truth_per_s <= (found.high_per_s or math.inf)


def summary(which: str, scores: list[dict], replicates: int, screening: bool) -> dict:
    plain = [row["right"] for row in scores if row["right"] is not None]
    truthful = [row for row in scores if row["has_truth"]]
    return {
        "what": "windows called steady that are right, over simulated families",
        "set": which,
        "screening": screening,
        "date": time.strftime("%Y-%m-%d"),
        "command": "python benchmarks/steady/" + " ".join(["simulate.py", *sys.argv[1:]]),
        "versions": {"stoker": __version__, "python": platform.python_version()},
        "replicates": replicates,
        "mean_score": sum(row["score"] for row in scores) / len(scores),
        "plain_mean_of_declared": sum(plain) / max(1, len(plain)),
        "pooled_of_declared": sum(row["right_runs"] for row in scores)
        / max(1, sum(row["declared_runs"] for row in scores)),
        "mean_declared_with_truth": sum(row["declared"] for row in truthful) / max(1, len(truthful)),
        "families": scores,
    }


def line(row: dict) -> str:
    right = "-" if row["right"] is None else f"{row['right']:.2f}"
    covered = "-" if row["covered"] is None else f"{row['covered']:.2f}"
    worst = "-" if row["worst_error"] is None else f"{100 * row['worst_error']:+.1f} %"
    return (
        f"{row['family']:<22} steady {row['declared']:.2f}  right {right}  score {row['score']:.2f}  "
        f"covered {covered}  worst {worst}  {row['refused_for']}"
    )


if __name__ == "__main__":
    sys.exit(main())
