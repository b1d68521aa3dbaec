"""How much faster a training runs while it is watched, beside a thread that holds the interpreter.

    OMP_NUM_THREADS=1 python benchmarks/overhead/held_interpreter.py [--runs 2] [--steps 150] [--out FILE]

Before each look the interpreter is handed over sooner than usual, for some milliseconds (`inside/pulse.py`).
That is what such a training lacks: its speed while watched is not the one it has alone. The whole of its loop
is timed, by its own clock, plain and watched in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

STOKER = [sys.executable, "-m", "stoker", "run", "--"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.train:
        print(train(args.steps))
        return
    seconds: dict[str, list[float]] = {"plain": [], "watched": []}
    for _ in range(args.runs):
        for kind, found in seconds.items():
            found.append(timed_s(kind, args.steps))
            print(f"{kind:8} {found[-1]:6.2f} s for {args.steps} steps", flush=True)
    ratios = [plain / watched for plain, watched in zip(*seconds.values(), strict=True)]
    print("times as fast while watched:", ", ".join(f"{ratio:.2f}" for ratio in ratios))
    if args.out:
        command = f"python benchmarks/overhead/held_interpreter.py --runs {args.runs} --steps {args.steps}"
        facts = {"date": time.strftime("%Y-%m-%d"), "command": command, "python": platform.python_version()}
        facts |= {"cores": os.cpu_count(), "seconds": seconds, "times_as_fast": ratios}
        args.out.write_text(json.dumps(facts, indent=1) + "\n")


def timed_s(kind: str, steps: int) -> float:
    command = [sys.executable, __file__, "--train", "--steps", str(steps)]
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "STOKER_HOME": home}
        words = command if kind == "plain" else STOKER + command
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def train(steps: int) -> float:
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 8))
    optimizer, rows = torch.optim.Adam(net.parameters()), torch.randn(256, 32)
    threading.Thread(target=compute, daemon=True).start()
    begin_s = time.perf_counter()
    for _ in range(steps):
        loss = net(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - begin_s


def compute() -> None:
    while True:
        sum(number * number for number in range(1000))


if __name__ == "__main__":
    main()
