"""A script's own clock: its flags, its healthy tick's time, what the fault cost, and the last line.

It holds no training and no fault. The first second of a run trains healthily and is timed; the dose is then
set against that, so that it costs about the same share of the time on any card.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

T = TypeVar("T")
SHARES = (0.0, 1 / 3, 1.0, 2.0)
"""Injected, in healthy ticks: about 25, 50 and 67 % of the time."""
WARMUP = 4


class Meter:
    def __init__(self, doc: str | None) -> None:
        parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
        parser.add_argument("--dose", type=int, default=0, choices=range(4))
        parser.add_argument("--fixed", action="store_true", help="the same dose, with the fault mended")
        parser.add_argument("--seconds", type=float, default=12.0)
        parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
        args = parser.parse_args()
        self.dose, self.fixed, self.seconds = args.dose, args.fixed, args.seconds
        self.device = torch.device(args.device)
        self.gpu = self.device.type == "cuda"
        self.share = SHARES[self.dose]
        self.sick = self.dose > 0 and not self.fixed
        self.ticks, self.samples = 0, 0
        self.injected_s, self.healthy_s = 0.0, 0.0
        self._end_s, self._began_s = 0.0, 0.0
        torch.manual_seed(0)
        if not self.gpu:
            torch.set_num_threads(1)

    def pick(self, on_gpu: T, on_cpu: T) -> T:
        return on_gpu if self.gpu else on_cpu

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.gpu)

    def sync(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def timed_s(self, work: Callable[[], Any], calls: int = 3) -> float:
        """Mean of some calls after a first one, the device's work included."""
        work()
        self.sync()
        begin_s = time.perf_counter()
        for _ in range(calls):
            work()
        self.sync()
        return (time.perf_counter() - begin_s) / calls

    def calibrate(self, tick: Callable[[], Any]) -> float:
        """Trains healthily for a second at most; the run's time begins here. Seconds of a healthy tick."""
        self._end_s = time.perf_counter() + self.seconds
        for _ in range(WARMUP):
            tick()
        self.sync()
        begin_s, ticks = time.perf_counter(), 0
        while not ticks or time.perf_counter() - begin_s < min(1.0, 0.1 * self.seconds):
            for _ in range(5):
                tick()
            self.sync()
            ticks += 5
        self.healthy_s = (time.perf_counter() - begin_s) / ticks
        return self.healthy_s

    @property
    def added_s(self) -> float:
        """Host time to add to a tick whose host and device take turns."""
        return self.share * self.healthy_s

    @property
    def beside_s(self) -> float:
        """Time for a tick of what runs beside it (loader workers): below a healthy tick it costs nothing."""
        return (1 + self.share) * self.healthy_s if self.dose else 0.0

    @property
    def host_s(self) -> float:
        """The same of the training's own thread: it runs beside a GPU, and takes turns with a CPU."""
        return self.beside_s if self.gpu else self.added_s

    def going_on(self) -> bool:
        if not self._began_s:
            self.sync()
            self._began_s = time.perf_counter()
            # A long set-up after the calibration leaves half of the time for the training, at least.
            self._end_s = max(self._end_s, self._began_s + 0.5 * self.seconds)
        return time.perf_counter() < self._end_s

    def ticked(self, samples: int = 0) -> None:
        self.ticks += 1
        self.samples += samples

    @contextmanager
    def injecting(self) -> Iterator[None]:
        """What a healthy run spends at the same place is no fault."""
        begin_s = time.perf_counter()
        yield
        if self.sick:
            self.injected_s += time.perf_counter() - begin_s

    def report(self, excess: bool = False) -> None:
        """`excess`: a cost that is in no place of its own is the time beyond as many healthy ticks."""
        self.sync()
        spent_s = time.perf_counter() - self._began_s
        if excess and self.sick:
            self.injected_s = max(0.0, spent_s - self.ticks * self.healthy_s)
        result = {
            "ticks": self.ticks,
            "ticks_per_s": self.ticks / spent_s,
            "injected_s": self.injected_s,
            "injected_frac": self.injected_s / spent_s,
            "healthy_tick_s": self.healthy_s,
        }
        if self.samples:
            result["samples_per_s"] = self.samples / spent_s
        print(json.dumps(result), flush=True)
