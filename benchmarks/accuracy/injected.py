"""Known costs put into a training, and whether Stoker finds them: in their phase, in their line, how much.

    python benchmarks/accuracy/injected.py [--seconds 9] [--only data] [--out FILE]

Each case is a run of `job.py`, which times what was put in. The truth is taken over the very ticks of
Stoker's window, the last ones of the run. Three comparisons, or the exit code is 1: the phase's share and the
line's share within 3 points, and the line itself. A worker's cost is seen twice: as the wait of the training
thread (the truth is the wait that the script timed) and as the line the worker is in. What lies before
`backward` shares its phase with the loss itself, which the script times, too.

`three` puts 15 % of each of three kinds into one phase (a sleep, pure Python, tensor operations): its lines
are told apart by looks alone. `pieces` does so with two, 30 % of each, by turns of 0.2 ms. They are
repeated and the looks added up, for one run has too few of them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from job import BESIDE, KINDS
from watched import machine, watched

LIMIT = 3.0
SHARES = (0.10, 0.30, 0.60)
PHASES = {
    "data": "data",
    "worker": "data",
    "env": "env",
    "after_step": "other",
    "before_backward": "loss",
    "three": "other",
    "pieces": "other",
}
COLUMNS = ("time_s", *KINDS, "wait", "loss")
JOB = Path(__file__).with_name("job.py")
BESIDE_SHARE = {"three": 0.15, "pieces": 0.3}
REPEATS = 6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=9.0, help="of training in each case")
    parser.add_argument("--only", choices=PHASES)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    facts = machine()
    places = [args.only] if args.only else list(PHASES)
    cases = [
        (where, kind, share)
        for where in places
        if where not in BESIDE
        for kind in ("sleep", "busy")
        for share in SHARES
    ]
    print(f"{'where':16}{'kind':8}{'truth':>7}{'phase':>8}{'line':>8}{'looks':>7}   line found")
    results = [told(injected(*case, args.seconds)) for case in cases]
    for where in BESIDE.keys() & set(places):
        results += [told(result) for result in side_by_side(where, args.seconds)]
    worst = max(max(abs(r["phase_off"]), abs(r["line_off"] or 0.0)) for r in results)
    wrong = [r for r in results if not r["right"]]
    print(f"{len(results)} cases, {len(wrong)} wrong; furthest off: {worst:.2f} points (limit {LIMIT:g})")
    if args.out:
        report = {"schema": "stoker.benchmark.injected/1", **facts, "limit_points": LIMIT, "cases": results}
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if wrong else 0


def told(result: dict[str, Any]) -> dict[str, Any]:
    line = "-" if result["line_pct"] is None else f"{result['line_pct']:7.1f}"
    print(
        f"{result['where']:16}{result['kind']:8}{result['truth_pct']:7.1f}{result['phase_pct']:8.1f}{line:>8}"
        f"{result['looks_in_phase']:7}   {result['line']}{'' if result['right'] else '   <- WRONG'}",
        flush=True,
    )
    return result


def run(where: str, kind: str, share: float, seconds: float) -> tuple[dict[str, Any], dict[str, float]]:
    """The training process as Stoker saw it, and the true shares over the same ticks, in %."""
    with tempfile.TemporaryDirectory() as folder:
        truth = Path(folder, "truth.tsv")
        words = ["--where", where, "--kind", kind, "--share", str(share), "--seconds", str(seconds)]
        why = watched([str(JOB), *words, "--truth", str(truth)], Path(folder), [])
        rows = [[float(field) for field in line.split("\t")] for line in truth.read_text().splitlines()]
    trainer: dict[str, Any] = why["trainers"][0]
    last, first = rows[-1], rows[-1 - trainer["window"]["ticks"]]
    spent = [b - a for a, b in zip(first, last, strict=True)]
    shares = [100 * value / spent[0] for value in spent]
    return trainer, dict(zip(COLUMNS, shares, strict=True))


def injected(where: str, kind: str, share: float, seconds: float) -> dict[str, Any]:
    trainer, truth = run(where, kind, share, seconds)
    phase = PHASES[where]
    lines = [line for line in trainer["lines"] if line["phase"] == phase]
    true_pct = truth["wait"] if where == "worker" else truth[kind]
    top = lines[0]
    line = name_of(top["place"]["leaf"])
    expected = KINDS[kind].__name__
    if where == "worker":
        line, expected = name_of(trainer["loaders"][0]["lines"][0][0]), KINDS[kind].__name__
    return judged(
        {
            "where": where,
            "kind": kind,
            "asked_pct": 100 * share,
            "truth_pct": true_pct,
            "phase_name": phase,
            "phase_pct": trainer["phase_pct"][phase],
            "phase_truth_pct": truth["loss"] if phase == "loss" else true_pct,
            "line": line,
            "line_is_right": line.endswith(f" {expected}"),
            "line_pct": top["pct"],
            "looks_in_line": top["samples"],
            "looks_in_phase": sum(line["samples"] for line in lines),
            **about(trainer),
        }
    )


def side_by_side(where: str, seconds: float) -> list[dict[str, Any]]:
    """Looks of several runs together; one result for each kind."""
    share, kinds = BESIDE_SHARE[where], BESIDE[where]
    runs = [run(where, "sleep", share, seconds) for _ in range(REPEATS)]
    looks = dict.fromkeys(kinds, 0)
    total = 0
    for trainer, _ in runs:
        lines = [line for line in trainer["lines"] if line["phase"] == "other"]
        total += sum(line["samples"] for line in lines)
        for kind in kinds:
            function = KINDS[kind]
            named = [
                line for line in lines if name_of(line["place"]["leaf"]).endswith(f" {function.__name__}")
            ]
            looks[kind] += sum(line["samples"] for line in named)
    phase_pct = statistics.fmean(trainer["phase_pct"]["other"] for trainer, _ in runs)
    true_phase = statistics.fmean(sum(truth[kind] for kind in KINDS) for _, truth in runs)
    return [
        judged(
            {
                "where": where,
                "kind": kind,
                "asked_pct": 100 * share,
                "truth_pct": statistics.fmean(truth[kind] for _, truth in runs),
                "phase_name": "other",
                "phase_pct": phase_pct,
                "phase_truth_pct": true_phase,
                "line": KINDS[kind].__name__,
                "line_is_right": True,
                "line_pct": phase_pct * looks[kind] / total,
                "looks_in_line": looks[kind],
                "looks_in_phase": total,
                "runs": len(runs),
            }
        )
        for kind in kinds
    ]


def judged(result: dict[str, Any]) -> dict[str, Any]:
    part = result["looks_in_line"] / result["looks_in_phase"]
    error = result["phase_pct"] * math.sqrt(part * (1 - part) / result["looks_in_phase"])
    phase_off = result["phase_pct"] - result.get("phase_truth_pct", result["truth_pct"])
    line_off = result["line_pct"] - result["truth_pct"]
    right = result["line_is_right"] and abs(phase_off) <= LIMIT and abs(line_off) <= LIMIT
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()}
    return {
        **rounded,
        "line_standard_error": round(error, 3),
        "phase_off": round(phase_off, 3),
        "line_off": round(line_off, 3),
        "right": right,
    }


def about(trainer: dict[str, Any]) -> dict[str, Any]:
    window = trainer["window"]
    return {"window_s": window["seconds"], "ticks": window["ticks"], "load_1m": os.getloadavg()[0]}


def name_of(line: list[Any] | None) -> str:
    return f"{Path(line[0]).name}:{line[1]} {line[2]}" if line else "none"


if __name__ == "__main__":
    sys.exit(main())
