"""Known stalls in a training on a GPU, and whether Stoker finds them: phase, line, and the GPU's idle time.

    PYTHONPATH=$PWD/src python benchmarks/accuracy/gpu_injected.py --out FILE [--quick] [--no-gpm]

Each case is a run of `gpu_job.py`, which times what was put in; the truth is taken over the ticks of Stoker's
window. Judged, 3 points allowed: the host's share of the phase, the share of its first line, that the line is
the right one, and, where Stoker gives it, the idle time of the GPU that it counts to the phase. Whatever is
wrong makes the exit code 1. The idle truth: in a loop that has just read its loss all of the stall; where the
GPU works meanwhile (a wait for it, a sleep under its queue) nothing. The idle total is 100 % less the GPU's
work per tick times the ticks.

16 runs of about 10 s. `--quick`: one share. `--no-gpm`: as on a card without those counters.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from card import card, need_a_gpu
from watched import watched

LIMIT = 3.0
SHARES = (0.10, 0.30, 0.60)
JOB = Path(__file__).with_name("gpu_job.py")
PLACES = {
    "data": ("data", "pause"),
    "env": ("env", "pause"),
    "function": ("other", "pause"),
    "sync": ("sync", "wait_for_the_card"),
    "copy": ("h2d", "copy_to_the_card"),
    "hidden": ("data", "pause"),
}
"""Where the stall is: the phase it belongs to, and the function of its line."""
GPU_WORKS_MEANWHILE = ("sync", "hidden")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of training in each case")
    parser.add_argument("--only", choices=PLACES, action="append")
    parser.add_argument("--quick", action="store_true", help="30 %% only")
    parser.add_argument("--no-gpm", action="store_true", help="as on a card without GPM")
    parser.add_argument("--device", default="cuda", help="cpu tries the script out where there is no GPU")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    facts: dict[str, object] = {}
    if args.device != "cpu":
        need_a_gpu()
        facts = card()
    if args.no_gpm:
        os.environ["STOKER_NO_GPM"] = "1"
    print(f"{'where':10}{'truth':>7}{'phase':>8}{'line':>8}{'idle':>8}{'of':>7}{'all idle':>10}   line found")
    results = [
        told(injected(*case, args.seconds, args.device)) for case in cases(args.only or PLACES, args.quick)
    ]
    wrong = [result for result in results if not result["right"]]
    print(f"{len(results)} cases, {len(wrong)} wrong (limit {LIMIT:g} points)")
    if args.out:
        report = {
            "schema": "stoker.benchmark.gpu_injected/1",
            **facts,
            "gpm": not args.no_gpm,
            "limit_points": LIMIT,
            "cases": results,
        }
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if wrong else 0


def cases(places: Any, quick: bool) -> list[tuple[str, float]]:
    """A sleep under the queue stays under it at the smaller shares only."""
    shares = (0.30,) if quick else SHARES
    return [(where, share) for where in places for share in ((0.30,) if where == "hidden" else shares)]


def told(result: dict[str, Any]) -> dict[str, Any]:
    idle = "-" if result["idle_pct"] is None else f"{result['idle_pct']:.1f}"
    print(
        f"{result['where']:10}{result['truth_pct']:7.1f}{result['phase_pct']:8.1f}{result['line_pct']:8.1f}"
        f"{idle:>8}{result['idle_truth_pct']:7.1f}{result['idle_total_truth_pct']:10.1f}"
        f"   {result['line']}{'' if result['right'] else '   <- WRONG'}",
        flush=True,
    )
    return result


def injected(where: str, share: float, seconds: float, device: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "truth.json")
        words = ["--where", where, "--share", str(share), "--seconds", str(seconds), "--device", device]
        options = ["--env", "__main__:Simulator.step"] if where == "env" else []
        why = watched([str(JOB), *words, "--truth", str(path)], Path(folder), options)
        if not path.exists():
            sys.exit(f"{JOB.name} {' '.join(words)} failed: run it without Stoker to see why")
        truth = json.loads(path.read_text())
    return judged({"where": where, "asked_pct": 100 * share, **compared(where, why, truth)})


def compared(where: str, why: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """What Stoker says, beside what the script has timed over the same ticks."""
    trainer = why["trainers"][0]
    phase, function = PLACES[where]
    ticks = trainer["window"]["ticks"]
    stall_pct, idle_total_pct = true_shares(truth, ticks)
    lines = [line for line in trainer["lines"] if line["phase"] == phase]
    found = lines[0]["place"]["leaf"] if lines else None
    gpu = trainer.get("gpu") or why.get("gpu") or {}
    return {
        "truth_pct": stall_pct,
        "phase_name": phase,
        "phase_pct": trainer["phase_pct"].get(phase, 0.0),
        "line": f"{Path(found[0]).name}:{found[1]} {found[2]}" if found else "none",
        "line_is_right": bool(found) and found[2] == function,
        "line_pct": lines[0]["pct"] if lines else 0.0,
        "idle_truth_pct": 0.0 if where in GPU_WORKS_MEANWHILE else stall_pct,
        "idle_pct": (gpu.get("idle_by_phase_pct") or {}).get(phase),
        "idle_by_phase_pct": gpu.get("idle_by_phase_pct"),
        "idle_total_truth_pct": idle_total_pct,
        "busy_pct": gpu.get("busy_pct"),
        "busy_source": gpu.get("busy_source"),
        "gpu_work_ms": [1000 * value for value in truth["gpu_work_s"]],
        "batch_rows": truth["batch_rows"],
        "copied_bytes": truth["copied_bytes"],
        "window_s": trainer["window"]["seconds"],
        "ticks": ticks,
        "remark": trainer["window"]["remark"],
        "phase_shares_pct": trainer["phase_pct"],
    }


def true_shares(truth: dict[str, Any], ticks: int) -> tuple[float, float]:
    """Of the last ticks: the stall's, and what the GPU's work leaves over; in %."""
    (first_s, first_stall_s), (last_s, last_stall_s) = truth["ticks"][-1 - ticks], truth["ticks"][-1]
    wall_s = last_s - first_s
    work_s = ticks * statistics.fmean(truth["gpu_work_s"])
    return 100 * (last_stall_s - first_stall_s) / wall_s, max(0.0, 100 * (1 - work_s / wall_s))


def judged(result: dict[str, Any]) -> dict[str, Any]:
    offs = {
        "phase_off": result["phase_pct"] - result["truth_pct"],
        "line_off": result["line_pct"] - result["truth_pct"],
        "idle_off": None if result["idle_pct"] is None else result["idle_pct"] - result["idle_truth_pct"],
    }
    right = result["line_is_right"] and all(off is None or abs(off) <= LIMIT for off in offs.values())
    figures = {**result, **offs}
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()}
    return {**rounded, "right": right}


if __name__ == "__main__":
    sys.exit(main())
