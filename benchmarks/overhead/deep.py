"""What a deep window costs: the time of a tick before, during and after it, beside a plain torch.profiler.

    python benchmarks/overhead/deep.py [--repeats 5] [--out FILE]

On a GPU. Two loops (24 small layers at batch 64: launch-bound; a small ResNet in bf16: GPU-bound), each in a
process of its own per repeat, in turns: under Stoker with a deep window; with torch.profiler (CUDA only, one
second, nothing torn down); with nothing at all, whose middle is a drift control. Ticks are timed by the host
between ends of steps; reported are medians, and per repeat the ratio of the median tick after to before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "src" / "stoker" / "inside" / "site"
LOOPS = {"launch": "24 small layers, batch 64", "conv": "ResNet-like, bf16, channels_last"}
WAYS = ("deep", "profiler", "nothing")
Results = dict[str, dict[str, list[dict[str, object]]]]
WARM_S, BEFORE_S, DURING_S, AFTER_S = 2.0, 4.0, 1.2, 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--loop", choices=LOOPS, action="append", help="only this one")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs=2, metavar=("LOOP", "WAY"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
        return
    loops = args.loop or list(LOOPS)
    results: Results = {loop: {way: [] for way in WAYS} for loop in loops}
    report = {"schema": "stoker.benchmark.deep/1", **machine(), "loops": results}
    for number in range(args.repeats):
        for loop in loops:
            for way in WAYS if number % 2 else WAYS[::-1]:
                results[loop][way].append(measure(loop, way))
                print(f"{loop:7} {way:9} {summary(results[loop][way])}", flush=True)
                if args.out:  # after each: a machine that is taken away leaves what was measured
                    args.out.write_text(json.dumps(report, indent=1) + "\n")


def measure(loop: str, way: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        if way == "deep":
            path = os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")]))
            env |= {"STOKER_FOLDER": folder, "STOKER_DEEP": "asked", "PYTHONPATH": path}
        command = [sys.executable, str(Path(__file__).resolve()), "--child", loop, way]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{loop} {way}: {done.stderr[-2000:]}")
        result = json.loads(done.stdout.splitlines()[-1])
        for path in Path(folder).glob("inside/*.jsonl"):
            result |= {"stoker": deep_row(path)}
        return result


def deep_row(path: Path) -> dict[str, object]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    (row,) = [row for row in rows if row.get("k") == "deep"]
    return {name: value for name, value in row.items() if name not in ("names", "k", "file")}


def summary(runs: list[dict[str, object]]) -> str:
    def middle(name: str) -> float:
        return statistics.median(run[name] for run in runs)  # type: ignore[type-var]

    ratios = sorted(run["after_over_before"] for run in runs)  # type: ignore[type-var]
    return (
        f"before {middle('before_ms'):.3f}  during {middle('during_ms'):.3f}  after {middle('after_ms'):.3f} "
        f"ms a tick; after/before {ratios[0]:.3f} … {ratios[-1]:.3f}; stalled {middle('stalled_s'):.2f} s"
    )


def machine() -> dict[str, object]:
    import torch

    def asked(*words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python", "benchmarks/overhead/deep.py", *sys.argv[1:]]),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "driver": asked("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "cores": os.cpu_count(),
        "load_1m": os.getloadavg()[0],
        "what": LOOPS,
    }


# -- one process: the loop, and one way of looking into it -------------------------------------------------


def child(loop: str, way: str) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "gpu" / "scripts"))
    from deep_loop import Loop

    trained = Loop(loop)
    spend(trained, WARM_S)
    began = time.perf_counter()
    if way == "deep":
        during, after = under_stoker(trained, began)
    else:
        during, after = under_torch(trained, way == "profiler")
    print(json.dumps(figures(during, after)))


def spend(trained, seconds: float) -> list[float]:
    """Ends of steps for so long, and the queue empty at the end."""
    import torch

    ends = [time.perf_counter()]
    while ends[-1] - ends[0] < seconds:
        trained.step()
        ends.append(time.perf_counter())
    torch.cuda.synchronize()
    return ends


def under_torch(trained, profile: bool) -> tuple[list[list[float]], list[float]]:
    import torch

    before = spend(trained, BEFORE_S)
    if not profile:
        return [before, spend(trained, DURING_S)], spend(trained, AFTER_S)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    profiler.start()
    during = spend(trained, DURING_S)
    profiler.stop()
    return [before, during], spend(trained, AFTER_S)


def under_stoker(trained, began: float) -> tuple[list[list[float]], list[float]]:
    """Stoker opens and closes its window by itself; a step tells afterwards in which part it ended."""
    import torch
    from _stoker_inside import agent, deep

    deep.TRAINED_S = WARM_S + BEFORE_S
    window = agent.agent.hook("deep").window
    parts: dict[int, list[float]] = {state: [] for state in range(4)}
    limit = began + BEFORE_S + AFTER_S + 60.0
    parts[window.state].append(time.perf_counter())
    while time.perf_counter() < limit and (
        not parts[deep.DONE] or parts[deep.DONE][-1] - parts[deep.DONE][0] < AFTER_S
    ):
        trained.step()
        parts[window.state].append(time.perf_counter())
    torch.cuda.synchronize()
    if not parts[deep.DONE] or not parts[deep.RECORDING]:
        sys.exit(f"no deep window: {window.row}")
    return [parts[deep.WAITING], parts[deep.RECORDING]], parts[deep.DONE]


def figures(first: list[list[float]], after: list[float]) -> dict[str, float]:
    before, during = first
    before_ms, during_ms, after_ms = (1e3 * median_step(ends) for ends in (before, during, after))
    third = len(after) // 3
    return {
        "before_ms": before_ms,
        "during_ms": during_ms,
        "after_ms": after_ms,
        "after_first_third_ms": 1e3 * median_step(after[:third]),
        "after_last_third_ms": 1e3 * median_step(after[-third:]),
        "after_over_before": after_ms / before_ms,
        "mean_before_ms": 1e3 * (before[-1] - before[0]) / (len(before) - 1),
        "mean_after_ms": 1e3 * (after[-1] - after[0]) / (len(after) - 1),
        "stalled_s": after[0] - before[-1] - (during[-1] - during[0]),
    }


def median_step(ends: list[float]) -> float:
    return statistics.median(b - a for a, b in pairwise(ends))


if __name__ == "__main__":
    main()
