"""`make gpu-test`: all GPU tests, several at a time, each in a pytest of its own.

Most of their time goes into starting Python, torch and CUDA. First those that ask only whether a training is
the same training; then those marked `alone`, whose trainings take turns on the card (scripts/turn.py)
while the next ones start; at last those that need the card for themselves.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).parent
ONE_PROCESS = "test_gpu_watcher.py"
"""Its tests look at one run."""
EXCLUSIVE = ("test_trials.py", "test_ab_on_gpu.py")
"""Trials refuse a GPU that somebody else uses: after all others, one after the other."""
AT_ONCE = max(1, min(8, (os.cpu_count() or 1) // 2))


def main() -> int:
    began_s, failed = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for marks in ("gpu and not alone", "gpu and alone"):
            turn = {"STOKER_TEST_TURN": f"{folder}/turn"} if marks == "gpu and alone" else {}
            test = functools.partial(tested, marks, turn)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                failed += sum(told(*done) for done in pool.map(test, collected(marks)))
    failed += sum(told(*tested("gpu", {}, [str(FOLDER / name)])) for name in EXCLUSIVE)
    print(f"{failed} failed, {time.perf_counter() - began_s:.0f} s")
    return 1 if failed else 0


def told(name: str, code: int, output: str, seconds: float) -> bool:
    """Whether it failed."""
    print(f"{'FAIL' if code else 'ok  '} {seconds:5.0f} s  {name}", flush=True)
    if code:
        print(output, flush=True)
    return code != 0


def collected(marks: str) -> list[list[str]]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-m", marks, str(FOLDER)]
    listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    nodes = [line for line in listed if "::" in line and not any(name in line for name in EXCLUSIVE)]
    if not nodes:
        sys.exit("no test was collected:\n" + "\n".join(listed))
    whole = [node for node in nodes if ONE_PROCESS in node]
    return [*([whole] if whole else []), *([node] for node in nodes if node not in whole)]


def tested(marks: str, turn: dict[str, str], nodes: list[str]) -> tuple[str, int, str, float]:
    began_s = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-m", marks, *nodes]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **turn})
    name = nodes[0].partition("::")[0] if len(nodes) > 1 else nodes[0]
    return name, done.returncode, done.stdout[-6000:], time.perf_counter() - began_s


if __name__ == "__main__":
    sys.exit(main())
