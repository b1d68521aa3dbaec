"""Identical runs, told apart by nothing: how often does `stoker ab` call them different?

    python benchmarks/ab/aa_study.py --runs 30 --seconds 8.5 --out aa.json   # goes on with what is in aa.json
    python benchmarks/ab/aa_study.py --from aa.json [--sessions 4000]        # again from recorded rates

Each trainer is run that often as an arm of `stoker ab` would be, one run after the other; the rates are
kept as they are. Then sessions are drawn from them: pairs of neighbours in the order they ran (as ABBA makes
them), and pairs drawn at random, which see the machine's whole drift. False alarms are WIN and LOSS; SAME is
the right answer. Stops by itself after --minutes; what it has is on the disk after each run, and the same
command goes on with it. A trial is looked at when it has trained 1.15 times --seconds: 8.5 is a run of 10 s.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

from stoker import __version__
from stoker.outside.gpu.nvml import find_gpus
from stoker.trials.ab.answer import Turn
from stoker.trials.ab.arms import ArmRunner
from stoker.trials.ab.measure import Arm
from stoker.trials.ab.plan import ArmPlan, Plan, Windows
from stoker.trials.ab.statistics import PAIRS, Outcome, Rule, first_answer
from stoker.trials.guard.coverage import find_coverage

PYTHON = sys.executable
GPUS = find_gpus()
PICTURES = ("--images", "4096", "--image-size", "96")
TRAINERS = {
    "offpolicy": (PYTHON, "examples/offpolicy.py", "--steps", "10000000", "--num-envs", "4"),
    "vision": (PYTHON, "examples/vision.py", "--epochs", "100000", "--num-workers", "8", *PICTURES),
    "distill": (PYTHON, "examples/distill.py", "--steps", "10000000", "--num-workers", "2"),
    "loop": (PYTHON, "benchmarks/ab/loop.py"),
}


Runs = dict[str, list[dict[str, object]]]


def record(found: Runs, runs: int, seconds: float, end_at: float, keep: Callable[[], None]) -> None:
    """Trainers by turns, so that a drift of the machine reaches both."""
    if "vision" in found:  # once: what a trial writes is thrown away with it
        subprocess.run([PYTHON, "examples/vision.py", "--steps", "1", *PICTURES], check=True)
    with tempfile.TemporaryDirectory(prefix="stoker-aa-") as folder:
        for number in range(1, runs + 1):
            for name, done in found.items():
                if len(done) >= number:
                    continue
                if time.monotonic() > end_at:
                    print("the time is up: what there is, is kept", flush=True)
                    return
                done.append(_one(name, number, seconds, Path(folder)))
                keep()
                print(f"{name} {number}: {done[-1]}", flush=True)


def _one(name: str, number: int, seconds: float, folder: Path) -> dict[str, object]:
    side = ArmPlan(name, TRAINERS[name])
    windows = Windows("study", seconds, 50, 3 * seconds)
    plan = Plan(side, side, str(Path.cwd()), windows, start_max_s=120.0)
    (folder / name).mkdir(exist_ok=True)
    guard = find_coverage(cwd=Path.cwd()).mode
    measure = ArmRunner(plan, folder / name, GPUS, guard)(Turn(Arm.A, number, 0, 1, None))
    return {
        "rates": measure.rates,
        "window_s": measure.window_s,
        "ticks": measure.ticks,
        "steady": measure.steady,
        "remark": measure.remark,
        "failure": measure.failure.text if measure.failure else None,
        "start_s": measure.start_s,
        "took_s": measure.took_s,
        "busy_pct": measure.busy_pct,
    }


def scored(rows: list[dict[str, object]], sessions: int) -> dict[str, object]:
    usable = [row["rates"] for row in rows if row["rates"] and row["steady"]]
    unit = next((unit for unit in ("env_steps", "samples", "ticks") if all(unit in r for r in usable)), "")  # type: ignore[operator]
    rates = [float(one[unit]) for one in usable]  # type: ignore[index]
    if len(rates) < 2 * 3:
        return {"runs": len(rows), "usable": len(rates), "text": "too few runs"}
    logs = [math.log(rate) for rate in rates]
    ways = {"neighbours": _neighbours, "any two": _any_two}
    return {
        "runs": len(rows),
        "usable": len(rates),
        "unit": unit,
        "mean": fmean(rates),
        "sd_frac": stdev(logs),
        "first_half_to_second_frac": fmean(logs[len(logs) // 2 :]) - fmean(logs[: len(logs) // 2]),
        "sessions": sessions,
        **{name: _ends(logs, draw, sessions) for name, draw in ways.items()},
    }


def _ends(logs: list[float], draw: object, sessions: int) -> dict[str, float]:
    rng, counted, pairs = random.Random(20261116), Counter[Outcome](), 0
    for _ in range(sessions):
        outcome, used = first_answer([draw(logs, rng) for _ in range(PAIRS)], Rule())  # type: ignore[operator]
        counted[outcome] += 1
        pairs += used
    false = (counted[Outcome.WIN] + counted[Outcome.LOSS]) / sessions
    return {
        "false_alarms": false,
        "same": counted[Outcome.SAME] / sessions,
        "ambiguous": counted[Outcome.AMBIGUOUS] / sessions,
        "pairs": pairs / sessions,
    }


def _neighbours(logs: list[float], rng: random.Random) -> float:
    """Two runs one after the other; who is called A is drawn."""
    at = rng.randrange(len(logs) - 1)
    return (logs[at + 1] - logs[at]) * rng.choice((-1, 1))


def _any_two(logs: list[float], rng: random.Random) -> float:
    one, other = rng.sample(logs, 2)
    return one - other


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=30, help="of each trainer")
    parser.add_argument("--seconds", type=float, default=10.0, help="of steady training in each")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no run after this")
    parser.add_argument("--trainer", action="append", choices=TRAINERS, help="default: offpolicy, vision")
    parser.add_argument("--sessions", type=int, default=4000)
    parser.add_argument("--from", dest="source", type=Path, help="rates recorded before")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    about = {"stoker": __version__, "python": platform.python_version(), "seconds_each": args.seconds}
    runs: Runs = {name: [] for name in args.trainer or ["offpolicy", "vision"]}
    source = args.source or args.out
    if source and source.exists():
        earlier = json.loads(source.read_text())
        about, runs = earlier["about"], {**runs, **earlier["runs"]}

    def keep(scores: object = None) -> None:
        if args.out:
            args.out.write_text(json.dumps({"about": about, "scores": scores, "runs": runs}, indent=1) + "\n")

    if not args.source:
        record(runs, args.runs, args.seconds, time.monotonic() + 60 * args.minutes, keep)
    scores = {name: scored(rows, args.sessions) for name, rows in runs.items()}
    print(json.dumps(scores, indent=1))
    keep(scores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
