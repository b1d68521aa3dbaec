"""Known stalls in a training on a GPU, and whether Stoker finds them: phase, line, and the GPU's idle time.

    PYTHONPATH=$PWD/src python benchmarks/accuracy/gpu_injected.py --out FILE [--quick] [--no-gpm | --both]

Each case is a run of `gpu_job.py`, which times what was put in; the truth is taken over the ticks of Stoker's
window. Judged, 3 points allowed: the host's share of the phase, the share of its first line, that the line is
the right one, and, where Stoker gives it, the idle time of the GPU that it counts to the phase. Whatever is
wrong makes the exit code 1. The idle truth: in a loop that has just read its loss all of the stall; where the
GPU works meanwhile (a wait for it, a sleep under its queue) nothing. The idle total is 100 % less the GPU's
work per tick times the ticks.

16 runs of about 10 s; on a GPU the next ones start meanwhile. `--quick`: one share. `--no-gpm`: as on a card
without those counters. `--both`: both answers, from one training each (`beside.py`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from beside import COUNTERS, SETTINGS, allow_gpm, deep_stage, recorded_run, start_beside, with_gpm
from card import card, need_a_gpu
from watched import asked, recorded

from stoker.launch.watcher import Watcher

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
HEAD = (
    f"{'where':10}{'':8}{'truth':>7}{'phase':>8}{'line':>8}{'idle':>8}{'of':>7}{'all idle':>10}   line found"
)
GPU_WORKS_MEANWHILE = ("sync", "hidden")


def main() -> int:
    args = _arguments()
    facts: dict[str, object] = {}
    if args.device != "cpu":
        need_a_gpu()
        facts = card()
    allow_gpm()
    head = {"schema": "stoker.benchmark.gpu_injected/2", **facts, "limit_points": LIMIT}
    results: list[dict[str, Any]] = []
    print(HEAD)
    with tempfile.NamedTemporaryFile() as lock, ThreadPoolExecutor(args.ahead) as pool:
        run = partial(injected, args=args, lock=lock.name if args.ahead > 1 else None)
        for found in pool.map(run, cases(args.only or PLACES, args.quick)):
            results += [told(result) for result in found]
            if args.out:
                args.out.write_text(json.dumps({**head, "cases": results}, indent=1) + "\n")
    wrong = [result for result in results if not result["right"]]
    print(f"{len(results)} answers, {len(wrong)} wrong (limit {LIMIT:g} points)")
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, help="of training in each case")
    parser.add_argument("--only", choices=PLACES, action="append")
    parser.add_argument("--quick", action="store_true", help="30 %% only")
    counters = parser.add_mutually_exclusive_group()
    counters.add_argument("--no-gpm", action="store_true", help="as on a card without GPM")
    counters.add_argument("--both", action="store_true", help="with GPM and without, from one training each")
    parser.add_argument("--ahead", type=int, help="runs started at once; they take turns on the GPU")
    parser.add_argument("--device", default="cuda", help="cpu tries the script out where there is no GPU")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.seconds = args.seconds or (8.0 if args.both else 6.0)
    args.ahead = args.ahead or (1 if args.device == "cpu" else 4)
    return args


def cases(places: Any, quick: bool) -> list[tuple[str, float]]:
    """A sleep under the queue stays under it at the smaller shares only."""
    shares = (0.30,) if quick else SHARES
    return [(where, share) for where in places for share in ((0.30,) if where == "hidden" else shares)]


def told(result: dict[str, Any]) -> dict[str, Any]:
    kind = "GPM" if result["gpm"] else "no GPM"
    if "failed" in result:
        print(f"{result['where']:10}{kind:8}{result['failed']}   <- WRONG", flush=True)
        return result
    idle = "-" if result["idle_pct"] is None else f"{result['idle_pct']:.1f}"
    print(
        f"{result['where']:10}{kind:8}{result['truth_pct']:7.1f}{result['phase_pct']:8.1f}{result['line_pct']:8.1f}"
        f"{idle:>8}{result['idle_truth_pct']:7.1f}{result['idle_total_truth_pct']:10.1f}"
        f"   {result['line']}{'' if result['right'] else '   <- WRONG'}",
        flush=True,
    )
    return result


def injected(case: tuple[str, float], args: argparse.Namespace, lock: str | None) -> list[dict[str, Any]]:
    """One run, and one result or two."""
    where, share = case
    words = ["--where", where, "--share", str(share), "--seconds", str(args.seconds), "--device", args.device]
    base = {"where": where, "asked_pct": 100 * share}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _record(where, words, folder, args, lock)
        if not (folder / "truth.json").exists():
            why = f"{JOB.name} {' '.join(words)} failed: run it without Stoker to see why"
            kinds = [True, False] if args.both else [not args.no_gpm]
            return [{**base, "gpm": gpm, "failed": why, "right": False} for gpm in kinds]
        truth = json.loads((folder / "truth.json").read_text())
        runs = _runs(folder, args)
        return [
            judged({**base, "gpm": gpm, **compared(where, asked(folder, run=run), truth, deep_stage(run))})
            for gpm, run in runs
        ]


def _record(
    where: str, words: Sequence[str], folder: Path, args: argparse.Namespace, lock: str | None
) -> None:
    turn, home = folder / "turn", folder / "home"
    env = {"STOKER_HOME": str(home), "LAB_TURN": str(turn), **({"LAB_CARD": lock} if lock else {})}
    env |= SETTINGS if args.both else {"STOKER_NO_GPM": "1"} if args.no_gpm else {}

    def beside(run: subprocess.Popen[bytes]) -> Watcher | None:
        return start_beside(run, home, folder / "beside", turn)

    recorded(
        [str(JOB), *words, "--truth", str(folder / "truth.json")],
        folder,
        ["--env", "__main__:Simulator.step"] if where == "env" else [],
        env=env,
        beside=beside if args.both else None,
    )


def _runs(folder: Path, args: argparse.Namespace) -> list[tuple[bool, Path]]:
    run = recorded_run(folder / "home")
    if not args.both:
        return [(not args.no_gpm, run)]
    return [(True, with_gpm(run, folder / "beside" / COUNTERS, folder / "with_gpm")), (False, run)]


def compared(
    where: str, why: dict[str, Any], truth: dict[str, Any], deep: tuple[float, float] | None = None
) -> dict[str, Any]:
    """What Stoker says, beside what the script has timed over the same ticks."""
    trainer = why["trainers"][0]
    phase, function = PLACES[where]
    ticks = trainer["window"]["ticks"]
    stall_pct, idle_total_pct = true_shares(truth, ticks, deep)
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
        "idle_truth_pct": true_idle_pct(where, stall_pct, idle_total_pct, gpu.get("busy_pct")),
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


def true_shares(
    truth: dict[str, Any], ticks: int, deep: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Of the last ticks that are not in a deep window: the stall's share, and what the GPU's work leaves
    over; in %."""
    last = tick_spans(truth["ticks"], deep)[-ticks:]
    wall_s, stall_s = (sum(column) for column in zip(*last, strict=True))
    work_s = ticks * statistics.fmean(truth["gpu_work_s"])
    return 100 * stall_s / wall_s, max(0.0, 100 * (1 - work_s / wall_s))


def true_idle_pct(where: str, stall_pct: float, idle_total_pct: float, busy_pct: float | None) -> float:
    """Where the stall is a copy, part of it is a copy engine at work, which counts as busy: as much as the
    counters found beyond the kernels' own time."""
    if where in GPU_WORKS_MEANWHILE:
        return 0.0
    copying_pct = 0.0 if where != "copy" or busy_pct is None else busy_pct - (100 - idle_total_pct)
    return stall_pct - min(stall_pct, max(0.0, copying_pct))


def tick_spans(
    ticks: Sequence[tuple[float, float]], deep: tuple[float, float] | None
) -> list[tuple[float, float]]:
    """The time of each tick and the stall in it. The tick that opens a deep window ends before that, by
    Stoker's clock; by the script's, after its preparation."""
    begins_s, ends_s = deep or (float("inf"), float("inf"))
    spans = []
    for (start_s, before_s), (end_s, stall_s) in pairwise(ticks):
        if start_s >= ends_s:
            spans.append((end_s - start_s, stall_s - before_s))
        elif start_s < begins_s:
            spans.append((min(end_s, begins_s) - start_s, stall_s - before_s))
    return spans


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
