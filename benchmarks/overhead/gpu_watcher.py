"""What looking at a GPU from outside costs: the watcher's CPU time, and its effect on a launch-bound loop.

    python benchmarks/overhead/gpu_watcher.py [--seconds 15] [--rates 0 1 5 10] [--out FILE]

This process trains. For each rate (1, 5 and 10 looks a second, and none: the host alone) first the CPU time
of a watcher beside it, as the scheduler counts it. Then a process that does nothing but look at the GPU, with
the watcher's own code, writes down when it did: the ticks that a look falls into are held against those
around them, and what a look adds, times the looks of a second, is the effect, with its 95 % interval. (Whole
blocks with and without looks differ by several per cent of themselves; nothing below 2 % was to be seen in
60 pairs.) GPM is used where the card has it; with STOKER_NO_GPM=1 in the environment the other mode is
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from inside_cost import interval, machine
from turns import added_by, mean_of
from watcher_cost import cpu_s

from stoker.diagnose.gpu_view import watcher_cost
from stoker.launch import procfs
from stoker.launch.watcher import Watcher, start_watcher
from stoker.outside.gpu.watching import start_gpu_watch
from stoker.store.gpu_files import read_gpu

RATES_HZ = (0.0, 1.0, 5.0, 10.0)
NEVER_S = 1e6


class LaunchBound:
    """Two dozen small layers, batch 64: the GPU waits for the launches."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        torch.manual_seed(0)
        layers = [torch.nn.Linear(128, 128) for _ in range(24)]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-4)
        self.rows = torch.randn(64, 128, device="cuda")

    def tick(self) -> None:
        loss = self.model(self.rows).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        loss.item()


def measure(loop: LaunchBound, rate_hz: float, seconds: float) -> dict[str, object]:
    root = procfs.identify(os.getpid())
    assert root is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        interval_s = 1 / rate_hz if rate_hz else NEVER_S
        watcher = start_watcher(
            folder, f"gpu-watcher-{rate_hz}", root, gpu_interval_s=interval_s, attached=True
        )
        try:
            _settle(loop)
            cpu = _cpu_share(watcher, loop, seconds)
        finally:
            watcher.stop()
        effect = _effect(loop, interval_s, seconds) if rate_hz else {}
        return {"rate_hz": rate_hz, **cpu, **_own_account(folder), **effect}


def _settle(loop: LaunchBound) -> None:
    """Until loop and watcher have started."""
    start = time.perf_counter()
    while time.perf_counter() - start < 3.0:
        loop.tick()


def _cpu_share(watcher: Watcher, loop: LaunchBound, seconds: float) -> dict[str, object]:
    used_s, start = cpu_s(watcher.pid), time.perf_counter()
    while time.perf_counter() - start < seconds:
        loop.tick()
    elapsed_s = time.perf_counter() - start
    return {"watcher_cpu_pct": round(100 * (cpu_s(watcher.pid) - used_s) / elapsed_s, 4)}


def _own_account(folder: Path) -> dict[str, object]:
    record = read_gpu(folder)
    cost = watcher_cost(record)
    sources = sorted({row.busy_source for row in record.readings if row.busy_source})
    busy = [row.busy_pct for row in record.readings if row.busy_pct is not None]
    return {
        "readings": len(record.readings),
        "busy_source": sources,
        "busy_median_pct": statistics.median(busy) if busy else None,
        "own_account_cpu_ms_per_look": round(cost.cpu_ms_per_look, 4) if cost else None,
        "own_account_gpu_cpu_pct": round(cost.gpu_cpu_pct, 4) if cost else None,
    }


def _effect(loop: LaunchBound, interval_s: float, seconds: float) -> dict[str, object]:
    """`perf_counter` and `monotonic` are one clock on Linux, in all processes."""
    command = [sys.executable, __file__, "--look-every", str(interval_s)]
    looker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        _settle(loop)
        ends = [time.perf_counter()]
        while ends[-1] - ends[0] < seconds:
            loop.tick()
            ends.append(time.perf_counter())
    finally:
        looker.terminate()
        told = looker.communicate()[0]
    looks = [tuple(map(float, line.split())) for line in told.splitlines() if line.count(" ") == 1]
    inside = [(start, end) for start, end in looks if ends[0] < start and end < ends[-1]]
    added_s, tick_s, per_tick = added_by(inside, ends)
    return {
        "looks": len(inside),
        "look_ms": round(1000 * statistics.fmean(end - start for start, end in inside), 4),
        "tick_ms": round(1000 * tick_s, 4),
        "effect": mean_of(added_s, tick_s, per_tick),
        "added_ms": [round(1000 * s, 4) for s in added_s],
    }


def look_on(interval_s: float) -> None:
    """Looks as the watcher does, until it is ended; tells of each when it began and ended."""
    with tempfile.TemporaryDirectory() as folder:
        watch = start_gpu_watch(Path(folder), "gpu-watcher", interval_s)
        if watch is None:
            sys.exit("no GPU")
        while True:
            start = time.perf_counter()
            watch.look(())
            print(start, time.perf_counter(), flush=True)
            time.sleep(max(0.0, start + interval_s - time.perf_counter()))


def versions() -> dict[str, object]:
    from stoker.outside.gpu.nvml import find_gpus

    gpus = find_gpus()
    driver = gpus.describe().driver
    gpus.close()
    command = " ".join(["python", "benchmarks/overhead/gpu_watcher.py", *sys.argv[1:]])
    no_gpm = os.environ.get("STOKER_NO_GPM", "")
    return {**machine(), "driver": driver, "STOKER_NO_GPM": no_gpm, "command": command}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rates", type=float, nargs="*", default=list(RATES_HZ))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--look-every", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.look_every:
        look_on(args.look_every)
    loop = LaunchBound()
    results = []
    for rate_hz in args.rates:
        results.append(measure(loop, rate_hz, args.seconds))
        effect = results[-1].get("effect")
        shown = interval(effect) if isinstance(effect, dict) else "host alone"
        print(
            f"{rate_hz:4g} Hz   watcher {results[-1]['watcher_cpu_pct']} % of a core   loop {shown}",
            flush=True,
        )
        if args.out:  # after each rate: a machine that is taken away leaves what was measured
            report = {"schema": "stoker.benchmark.gpu-watcher/2", **versions(), "results": results}
            args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
