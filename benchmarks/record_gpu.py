"""Record what NVML and GPM answer under a few loads, for tests that replay it (tests/recordings/gpu).

    python benchmarks/record_gpu.py --out tests/recordings/gpu/h200.jsonl [--seconds 4] [--interval 0.2]

A dear look tells the driver's samples beside GPM, so that one file tests both modes. The card's UUID and
process IDs are replaced by made-up ones.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pynvml
import torch

from stoker.outside.gpu.nvml import NO_GPM, open_nvml
from stoker.outside.gpu.recording import Look, box_row, look_row
from stoker.outside.gpu.seam import Answers, Box, Facts, Refused, Using

FIRST_PID = 4312
DEAR_EVERY = 5


def matmul() -> Callable[[], None]:
    left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        for _ in range(4):
            left @ left
        torch.cuda.synchronize()

    return step


def tiny_kernels() -> Callable[[], None]:
    small = torch.randn(64, 64, device="cuda")

    def step() -> None:
        for _ in range(500):
            small.add_(1e-9)
        torch.cuda.synchronize()

    return step


def bursts() -> Callable[[], None]:
    left = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        end = time.perf_counter() + 0.020
        while time.perf_counter() < end:
            left @ left
            torch.cuda.synchronize()
        time.sleep(0.080)

    return step


def copies() -> Callable[[], None]:
    source = torch.empty(2**28, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)

    def step() -> None:
        for _ in range(20):
            target.copy_(source)
        torch.cuda.synchronize()

    return step


def uploads() -> Callable[[], None]:
    source = torch.empty(2**26, dtype=torch.uint8).pin_memory()
    target = torch.empty(2**26, device="cuda", dtype=torch.uint8)

    def step() -> None:
        for _ in range(10):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    return step


def idle() -> Callable[[], None]:
    torch.zeros(1, device="cuda")
    return lambda: time.sleep(0.05)


LOADS = {
    "idle": idle,
    "matmul": matmul,
    "tiny kernels": tiny_kernels,
    "bursts": bursts,
    "copies": copies,
    "uploads": uploads,
}


class Running:
    """A load in a thread of its own, for a while."""

    def __init__(self, make: Callable[[], Callable[[], None]]) -> None:
        self._step = make()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            self._step()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


def _nameless(answers: Answers) -> Answers:
    if answers.processes is None or isinstance(answers.processes, Refused):
        return answers
    renamed = tuple(Using(FIRST_PID + n, one.memory_bytes) for n, one in enumerate(answers.processes))
    return replace(answers, processes=renamed)


def _nameless_box(box: Box) -> Box:
    devices = [
        replace(facts, uuid=f"GPU-00000000-0000-4000-8000-{number:012d}")
        if isinstance(facts, Facts)
        else facts
        for number, facts in enumerate(box.devices)
    ]
    return replace(box, devices=tuple(devices))


def record(seconds: float, interval_s: float) -> list[dict[str, object]]:
    os.environ.pop(NO_GPM, None)
    gpus = open_nvml(pynvml)
    box = _nameless_box(gpus.describe())
    note = (
        f"recorded {time.strftime('%Y-%m-%d')}, torch {torch.__version__}, "
        f"{interval_s} s between looks, benchmarks/record_gpu.py"
    )
    rows = [box_row(box, note)]
    number = 0
    for load, make in LOADS.items():
        with Running(make):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(interval_s)
                for device in range(len(box.devices)):
                    answers = _nameless(gpus.ask(device, dear=number % DEAR_EVERY == 0))
                    rows.append(look_row(Look(device, round(time.monotonic(), 4), load, answers)))
                number += 1
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--interval", type=float, default=0.2)
    args = parser.parse_args()
    rows = record(args.seconds, args.interval)
    args.out.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    print(f"{len(rows) - 1} looks, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
