"""How much faster a training runs while it is watched, beside a thread that holds the interpreter.

    OMP_NUM_THREADS=1 python benchmarks/overhead/held_interpreter.py [--runs 4] [--seconds 20] [--out FILE]

Before a look the interpreter is handed over sooner than usual, for some milliseconds (`inside/pulse.py`).
That is what such a training lacks, and it was three times as fast while watched. So it is not done where
another thread was found to compute; that takes three seconds. Steps from the fifth second on are timed, by
the training's own clock, plain and watched in turns. It needs a core for each of the two threads: beside
another program the interpreter changes hands otherwise, and the training is not held up at all.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "accuracy"))

from card import measured_code

WARMUP_S = 5.0
STOKER = [sys.executable, "-m", "stoker", "run", "--"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.train:
        print(1e3 * train(args.seconds))
        return
    steps_ms: dict[str, list[float]] = {"plain": [], "watched": []}
    load = os.getloadavg()[0]
    for _ in range(args.runs):
        for kind, found in steps_ms.items():
            found.append(timed_ms(kind, args.seconds))
            print(f"{kind:8} {found[-1]:7.1f} ms a step", flush=True)
    ratios = [plain / watched for plain, watched in zip(*steps_ms.values(), strict=True)]
    print("times as fast while watched:", ", ".join(f"{ratio:.2f}" for ratio in ratios))
    if args.out:
        command = (
            f"python benchmarks/overhead/held_interpreter.py --runs {args.runs} --seconds {args.seconds:g}"
        )
        facts = {"date": time.strftime("%Y-%m-%d"), "command": command, "python": platform.python_version()}
        facts |= {"cores": os.cpu_count(), "load_1m_at_start": load, "code": measured_code()}
        facts |= {"steps_ms": steps_ms, "times_as_fast": ratios}
        args.out.write_text(json.dumps(facts, indent=1) + "\n")


def timed_ms(kind: str, seconds: float) -> float:
    command = [sys.executable, __file__, "--train", "--seconds", str(seconds)]
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "STOKER_HOME": home}
        words = command if kind == "plain" else STOKER + command
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def train(seconds: float) -> float:
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 8))
    optimizer, rows = torch.optim.Adam(net.parameters()), torch.randn(256, 32)
    threading.Thread(target=compute, daemon=True).start()
    begin_s, steps = time.perf_counter() + WARMUP_S, 0
    while (now_s := time.perf_counter()) < begin_s + seconds:
        steps += now_s >= begin_s
        loss = net(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (now_s - begin_s) / steps


def compute() -> None:
    while True:
        sum(number * number for number in range(1000))


if __name__ == "__main__":
    main()
