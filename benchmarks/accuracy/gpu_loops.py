"""Loops that keep a GPU busy in six ways and more, and Kineto's word on when it was; all in one process.

    python benchmarks/accuracy/gpu_loops.py [--loop bursts] [--windows 5] --out FILE

A window is a second under `torch.profiler` (CUDA activities alone), begun and ended with an empty queue. Its
busy stretches are the union of all kernels, copies and fills over all streams. Before, between and after the
windows the same loop runs without the profiler; and once before the profiler was ever started, since what it
attaches may stay attached.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from card import card, need_a_gpu

WINDOW_S, BETWEEN_S, FIRST_S, WARM_UP_S = 1.0, 1.3, 0.8, 0.2
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
Stretch = tuple[float, float]


def launch_bound(torch: Any) -> Callable[[], None]:
    """Many small layers: the host cannot launch them as fast as they run."""
    layers = [layer for _ in range(24) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    rows = torch.randn(64, 64, device="cuda")

    def step() -> None:
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def compute(torch: Any) -> Callable[[], None]:
    square = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(square)

    def step() -> None:
        for _ in range(10):
            torch.matmul(square, square, out=out)
        torch.cuda.synchronize()

    return step


def copies(torch: Any) -> Callable[[], None]:
    """To the device and back, pinned memory."""
    pinned = torch.empty(64 * 2**20, dtype=torch.uint8, pin_memory=True)
    back = torch.empty(16 * 2**20, dtype=torch.uint8, pin_memory=True)
    card = torch.empty_like(pinned, device="cuda")

    def step() -> None:
        for _ in range(4):
            card.copy_(pinned, non_blocking=True)
        back.copy_(card[: len(back)])

    return step


def pageable_copies(torch: Any) -> Callable[[], None]:
    """Kineto calls such a copy one piece, also while the host moves its parts to where the card can read."""
    pageable = torch.empty(64 * 2**20, dtype=torch.uint8)
    card = torch.empty_like(pageable, device="cuda")
    return lambda: card.copy_(pageable)


def spaced(elements: int) -> Callable[[Any], Callable[[], None]]:
    """Kernels of one size, some 30 microseconds apart: what the card counts as busy beyond each."""

    def make(torch: Any) -> Callable[[], None]:
        row = torch.randn(elements, device="cuda")

        def step() -> None:
            for _ in range(200):
                row.sin_()
                until = time.perf_counter() + 25e-6
                while time.perf_counter() < until:
                    pass
            torch.cuda.synchronize()

        return step

    return make


def two_streams(torch: Any) -> Callable[[], None]:
    """Small work side by side, part of the time overlapping; then a pause."""
    streams = [torch.cuda.Stream() for _ in range(2)]
    square = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    row = torch.randn(2**22, device="cuda")

    def step() -> None:
        with torch.cuda.stream(streams[0]):
            for _ in range(8):
                square @ square
        with torch.cuda.stream(streams[1]):
            for _ in range(40):
                row.sin()
        torch.cuda.synchronize()
        time.sleep(0.001)

    return step


def graph_replay(torch: Any) -> Callable[[], None]:
    """Small kernels in a CUDA graph: close together, with pauses between the replays."""
    row = torch.randn(2**16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    row.sin()  # what it needs is loaded before the capture
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        value = row
        for _ in range(200):
            value = value.sin()

    def step() -> None:
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
        time.sleep(0.002)

    return step


def bursts(torch: Any) -> Callable[[], None]:
    """20 ms of work, 80 ms of sleep."""
    square = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        end = time.perf_counter() + 0.020
        while time.perf_counter() < end:
            for _ in range(4):
                square @ square
            torch.cuda.synchronize()
        time.sleep(0.080)

    return step


LOOPS = {
    "launch-bound": launch_bound,
    "compute": compute,
    "copies": copies,
    "two streams": two_streams,
    "graph replay": graph_replay,
    "bursts": bursts,
}
ASIDE = {"copies, pageable": pageable_copies, "spaced, small": spaced(2**12), "spaced, large": spaced(2**21)}
"""To see why a counter is off; not judged."""


def keep_going(torch: Any, step: Callable[[], None], seconds: float) -> dict[str, Any]:
    """From an empty queue to an empty queue."""
    iterations = 0
    torch.cuda.synchronize()
    begin = time.time()
    while not iterations or time.time() < begin + seconds:
        step()
        iterations += 1
    torch.cuda.synchronize()
    return {"begin_s": begin, "end_s": time.time(), "iterations": iterations}


def profiled(torch: Any, step: Callable[[], None], seconds: float = WINDOW_S) -> dict[str, Any]:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
    profiler.start()
    window = keep_going(torch, step, seconds)
    profiler.stop()
    return {**window, **work_of(torch, profiler, window)}


def work_of(torch: Any, profiler: Any, window: dict[str, Any]) -> dict[str, Any]:
    cuda = torch.autograd.DeviceType.CUDA
    work = [
        (event.start_ns() / 1e9, (event.start_ns() + event.duration_ns()) / 1e9, event.name())
        for event in profiler.profiler.kineto_results.events()
        if event.device_type() == cuda and is_work(event)
    ]
    kernels = [(a, b) for a, b, name in work if not name.startswith(("Memcpy", "Memset"))]
    return {
        "activities": len(work),
        "first_after_begin_ms": 1000 * (min(a for a, _, _ in work) - window["begin_s"]) if work else None,
        "last_before_end_ms": 1000 * (window["end_s"] - max(b for _, b, _ in work)) if work else None,
        "busy": union((a, b) for a, b, _ in work),
        "kernels_busy": union(kernels),
    }


def is_work(event: Any) -> bool:
    """Not the mark that a record_function leaves on the device: it spans the gaps between its kernels."""
    if hasattr(event, "activity_type"):
        return event.activity_type() in WORK
    return not event.is_user_annotation()


def union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Sorted, none touching another."""
    merged: list[Stretch] = []
    for begin, end in sorted(stretches):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def measured(torch: Any, step: Callable[[], None], windows: int) -> dict[str, Any]:
    """`between` has one stretch more than there are windows: one before and one after each."""
    between, found = [keep_going(torch, step, BETWEEN_S)], []
    for _ in range(windows):
        found.append(profiled(torch, step))
        between.append(keep_going(torch, step, BETWEEN_S))
    return {"between": between, "windows": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = {**LOOPS, **ASIDE}
    parser.add_argument("--loop", choices=known, action="append", help="only this one")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    need_a_gpu()
    import torch

    begin = time.monotonic()
    steps = {name: known[name](torch) for name in args.loop or known}
    first = {}
    for name, step in steps.items():
        keep_going(torch, step, WARM_UP_S)
        first[name] = keep_going(torch, step, FIRST_S)
    profiled(torch, next(iter(steps.values())), 0.1)  # this one attaches CUPTI; not kept
    loops = {}
    for name, step in steps.items():
        keep_going(torch, step, WARM_UP_S)
        loops[name] = {"first": first[name], **measured(torch, step, args.windows)}
    took_s = round(time.monotonic() - begin, 1)
    args.out.write_text(json.dumps({"card": card(), "seconds": took_s, "loops": loops}))


if __name__ == "__main__":
    sys.exit(main())
