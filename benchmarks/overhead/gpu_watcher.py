"""What looking at a GPU from outside costs: the watcher's CPU time, and its effect on a launch-bound loop.

    python benchmarks/overhead/gpu_watcher.py [--pairs 100] [--seconds 20] [--out FILE]

For each rate (1, 5 and 10 looks a second, and none: the host alone) a watcher runs beside this process, which
trains. First its CPU time over some seconds, as the scheduler counts it. Then pairs of blocks in random
order, the watcher looking or held (SIGSTOP), and for each pair the ratio of the time per tick, looking over
held; reported are the mean of the log ratios and its 95 % interval. GPM is used where the card has it; with
STOKER_NO_GPM=1 in the environment the other mode is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from inside_cost import estimate, interval, machine
from watcher_cost import cpu_s

from stoker.diagnose.gpu_view import watcher_cost
from stoker.launch import procfs
from stoker.launch.watcher import Watcher, start_watcher
from stoker.store.gpu_files import read_gpu

RATES_HZ = (0.0, 1.0, 5.0, 10.0)
BLOCK_S = 0.4
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

    def run(self, ticks: int) -> float:
        start = time.perf_counter()
        for _ in range(ticks):
            loss = self.model(self.rows).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.torch.cuda.synchronize()
        return time.perf_counter() - start


def measure(loop: LaunchBound, rate_hz: float, seconds: float, pairs: int) -> dict[str, object]:
    root = procfs.identify(os.getpid())
    assert root is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        interval_s = 1 / rate_hz if rate_hz else NEVER_S
        watcher = start_watcher(
            folder, f"gpu-watcher-{rate_hz}", root, gpu_interval_s=interval_s, attached=True
        )
        try:
            ticks = _settled(loop)
            cpu = _cpu_share(watcher, loop, ticks, seconds)
            blocks = _blocks(watcher, loop, ticks, pairs) if rate_hz else {}
        finally:
            watcher.process.send_signal(signal.SIGCONT)
            watcher.stop()
        return {"rate_hz": rate_hz, **cpu, **_own_account(folder), **blocks}


def _settled(loop: LaunchBound) -> int:
    """Ticks in a block, once loop and watcher have started."""
    loop.run(20)
    start = time.perf_counter()
    while time.perf_counter() - start < 3.0:
        loop.run(50)
    return max(10, round(BLOCK_S / (loop.run(100) / 100)))


def _cpu_share(watcher: Watcher, loop: LaunchBound, ticks: int, seconds: float) -> dict[str, object]:
    used_s, start = cpu_s(watcher.pid), time.perf_counter()
    while time.perf_counter() - start < seconds:
        loop.run(ticks)
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


def _blocks(watcher: Watcher, loop: LaunchBound, ticks: int, pairs: int) -> dict[str, object]:
    chance = random.Random(1)
    ratios, tick_s = [], []
    for _ in range(pairs):
        looking_first = chance.random() < 0.5
        seen = {}
        for looking in (looking_first, not looking_first):
            watcher.process.send_signal(signal.SIGCONT if looking else signal.SIGSTOP)
            loop.run(max(5, ticks // 10))
            seen[looking] = loop.run(ticks) / ticks
        ratios.append(math.log(seen[True] / seen[False]))
        tick_s.append(seen[False])
    return {
        "pairs": pairs,
        "ticks_per_block": ticks,
        "tick_ms": round(1000 * statistics.median(tick_s), 4),
        "effect": estimate(ratios),
        "log_ratios": [round(ratio, 5) for ratio in ratios],
    }


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
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rates", type=float, nargs="*", default=list(RATES_HZ))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    loop = LaunchBound()
    results = []
    for rate_hz in args.rates:
        results.append(measure(loop, rate_hz, args.seconds, args.pairs))
        effect = results[-1].get("effect")
        shown = interval(effect) if isinstance(effect, dict) else "host alone"
        print(
            f"{rate_hz:4g} Hz   watcher {results[-1]['watcher_cpu_pct']} % of a core   loop {shown}",
            flush=True,
        )
        if args.out:  # after each rate: a machine that is taken away leaves what was measured
            report = {"schema": "stoker.benchmark.gpu-watcher/1", **versions(), "results": results}
            args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
