"""`make gpu-test`: all GPU tests, several at a time, each in a pytest of its own.

Most of their time goes into starting Python, torch and CUDA. First those that ask only whether a training is
the same training; then those marked `alone`, whose trainings take turns on the card (scripts/turn.py) while
the next ones start; last, those that refuse a card on which somebody else is.

    python tests/gpu/together.py [unchanged]        the first of these alone
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parents[1] / "benchmarks" / "accuracy"))

from card import measured_code  # noqa: E402

SEVERAL = min(16, os.cpu_count() or 1)
PARTS = (("gpu and not alone and not empty", SEVERAL), ("gpu and alone", SEVERAL), ("gpu and empty", 1))
ONE_PROCESS = ("test_gpu_watcher.py", "test_trials.py")
"""Tests that look at one run, or come one after another anyway."""
FIRST = ("test_gpu_watcher.py", "test_ab_on_gpu.py", "test_the_script_itself", "test_compiled", "graph")
"""What takes longest."""


def main() -> int:
    began_s, failed = time.perf_counter(), 0
    print(f"code {measured_code()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for marks, at_once in PARTS[: 1 if sys.argv[1:] == ["unchanged"] else None]:
            settings = {"STOKER_TEST_KEPT": folder}
            if marks == "gpu and alone":
                settings["STOKER_TEST_TURN"] = f"stoker-{Path(folder).name}"
            test = functools.partial(tested, marks, settings)
            with ThreadPoolExecutor(at_once) as pool:
                for done in as_completed([pool.submit(test, nodes) for nodes in collected(marks)]):
                    name, code, output, seconds = done.result()
                    failed += code != 0
                    print(f"{'FAIL' if code else 'ok  '} {seconds:5.0f} s  {name}", flush=True)
                    if code:
                        print(output, flush=True)
            print(f"     {time.perf_counter() - began_s:5.0f} s so far: {marks}", flush=True)
    print(f"{failed} failed, {time.perf_counter() - began_s:.0f} s")
    return 1 if failed else 0


def collected(marks: str) -> list[list[str]]:
    """Node ids that are run by one pytest; the long ones first."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-m", marks, str(FOLDER)]
    listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    nodes = [line for line in listed if "::" in line]
    if not nodes:
        sys.exit("no test was collected:\n" + "\n".join(listed))
    groups: dict[str, list[str]] = {}
    for node in nodes:
        file = node.partition("::")[0]
        groups.setdefault(file if Path(file).name in ONE_PROCESS else node, []).append(node)
    return sorted(groups.values(), key=lambda nodes: not any(name in nodes[0] for name in FIRST))


def tested(marks: str, settings: dict[str, str], nodes: list[str]) -> tuple[str, int, str, float]:
    began_s = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-m", marks, *nodes]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings})
    name = nodes[0].partition("::")[0] if len(nodes) > 1 else nodes[0]
    return name, done.returncode, done.stdout[-6000:], time.perf_counter() - began_s


if __name__ == "__main__":
    sys.exit(main())
