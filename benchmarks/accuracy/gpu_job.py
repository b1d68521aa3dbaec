"""A training on a GPU with a known stall in one place of it, which it times itself.

    python benchmarks/accuracy/gpu_job.py --where data --share 0.3 --seconds 6 --truth FILE

The batch is chosen so that a tick is about 12 ms of GPU work. In all places but `sync` and `hidden` the loop
reads its loss at the end of each tick, so the GPU's queue is empty there and the GPU is idle for all of a
stall that is put in after it. `--truth` gets JSON: the GPU's work per tick (measured before and after the
training: many ticks launched ahead, without a stall or a wait), and for each tick the clock and the seconds
of the stall so far, by this script's own `perf_counter`.

    data      the data set, read by the training thread, sleeps
    env       the simulator (named by --env __main__:Simulator.step) sleeps
    function  a function of the script sleeps
    sync      a needless torch.cuda.synchronize(): the time the host waits in it
    copy      a blocking .to(device) of much pageable memory
    hidden    as data, in a loop that never waits for the GPU: the sleep lies under the GPU's queue

Several may be started at once: they have the card one after another (`../pathologies/gate.py`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

sys.path.append(str(Path(__file__).resolve().parents[1] / "pathologies"))
import gate

PLACES = ("data", "env", "function", "sync", "copy", "hidden")
TICK_S, LAYERS = 0.012, 4
WIDTH = {"cuda": 4096, "cpu": 256}
CALIBRATION_TICKS = 30
PAGEABLE_BYTES, SMALLEST_BYTES, QUANTUM = 1024 * 2**20, 4 * 2**20, 2**16


def pause(seconds: float) -> None:
    time.sleep(max(0.0, seconds))


def think(seconds: float) -> None:
    """Pure Python beside the GPU's work."""
    end = perf_counter() + seconds
    while perf_counter() < end: pass  # noqa: E701  # fmt: skip


def wait_for_the_card() -> None:
    torch.cuda.synchronize()


def copy_to_the_card(host: torch.Tensor, device: str) -> torch.Tensor:
    return host.to(device)


class Stall:
    """What is put in: how long it is to be, how long it was."""

    def __init__(self, share: float) -> None:
        self.share, self.wanted_s, self.spent_s = share, 0.0, 0.0

    def sleep(self) -> None:
        start = perf_counter()
        pause(self.wanted_s)
        self.spent_s += perf_counter() - start

    def follow(self, tick_s: float, stall_s: float) -> None:
        """Towards the share asked for; the rest of the tick is what it is."""
        target_s = self.share / (1 - self.share) * (tick_s - stall_s)
        self.wanted_s += 0.1 * (target_s - self.wanted_s)


class Rows(IterableDataset):
    def __init__(self, batch: torch.Tensor, stall: Stall | None) -> None:
        self.batch, self.stall = batch, stall

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            if self.stall is not None:
                self.stall.sleep()
            yield self.batch


class Simulator:
    def __init__(self, stall: Stall) -> None:
        self.stall = stall

    def step(self) -> None:
        self.stall.sleep()


class Training:
    def __init__(self, where: str, share: float, device: str) -> None:
        torch.manual_seed(0)
        self.where, self.device, self.stall = where, device, Stall(share)
        width = WIDTH[torch.device(device).type]
        layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.batch = self.sized_batch(width)
        self.env = Simulator(self.stall)
        self.pageable = torch.ones(PAGEABLE_BYTES if where == "copy" else 1, dtype=torch.uint8)
        self.copied_bytes = 64 * 2**20
        self.think_s = 0.5 * TICK_S
        self.truth: list[tuple[float, float]] = []

    def sized_batch(self, width: int) -> torch.Tensor:
        batch = torch.randn(512, width, device=self.device)
        self.work_s(batch)
        for _ in range(2):
            rows = max(64, round(len(batch) * TICK_S / self.work_s(batch) / 64) * 64)
            batch = torch.randn(rows, width, device=self.device)
        return batch

    def work_s(self, batch: torch.Tensor) -> float:
        """The device's work of one tick: many in a row, launched ahead. Not through the optimizer, whose
        steps would count as ticks of the training."""
        self._settle()
        start = perf_counter()
        for _ in range(CALIBRATION_TICKS):
            self.loss(batch).backward()
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter.sub_(parameter.grad, alpha=1e-6)
                    parameter.grad = None
        self._settle()
        return (perf_counter() - start) / CALIBRATION_TICKS

    def _settle(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        return self.model(batch).square().mean()

    def loader(self) -> Iterator[torch.Tensor]:
        slow = self.where in ("data", "hidden")
        return iter(DataLoader(Rows(self.batch, self.stall if slow else None), batch_size=None))

    def run(self, seconds: float) -> None:
        batches, end = self.loader(), perf_counter() + seconds
        while perf_counter() < end:
            self.tick(batches)

    def tick(self, batches: Iterator[torch.Tensor]) -> None:
        start, before_s = perf_counter(), self.stall.spent_s
        batch = next(batches)
        if self.where == "env":
            self.env.step()
        elif self.where == "copy":
            self.copy()
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.truth.append((perf_counter(), self.stall.spent_s))
        if self.where == "sync":
            self.wait()
        elif self.where != "hidden":
            loss.item()
        if self.where == "function":
            self.stall.sleep()
        stall_s, tick_s = self.stall.spent_s - before_s, perf_counter() - start
        self.stall.follow(tick_s, stall_s)
        if self.where == "sync":  # its wait is what the thinking leaves of the GPU's work
            self.think_s = max(0.0, self.think_s + 0.1 * (stall_s - self.stall.share * tick_s))

    def wait(self) -> None:
        think(self.think_s)
        start = perf_counter()
        wait_for_the_card()
        self.stall.spent_s += perf_counter() - start

    def copy(self) -> None:
        start = perf_counter()
        copy_to_the_card(self.pageable[: self.copied_bytes], self.device)
        spent_s = perf_counter() - start
        self.stall.spent_s += spent_s
        wanted = self.copied_bytes * (1 + 0.2 * (min(2.0, self.stall.wanted_s / spent_s) - 1))
        self.copied_bytes = min(PAGEABLE_BYTES, max(SMALLEST_BYTES, round(wanted / QUANTUM) * QUANTUM))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--where", choices=PLACES, required=True)
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--device", default="cuda", help="cpu tries the script out; sync and copy need a GPU")
    parser.add_argument("--truth", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    gate.prepare([gate.BY_THE_FIRST_OPTIMIZER])
    with gate.card():
        content = trained(args.where, args.share, args.seconds, args.device)
    args.truth.write_text(json.dumps(content))


def trained(where: str, share: float, seconds: float, device: str) -> dict[str, object]:
    training = Training(where, share, device)
    before_s = training.work_s(training.batch)
    training.run(seconds)
    after_s = training.work_s(training.batch)
    return {
        "gpu_work_s": [before_s, after_s],
        "batch_rows": len(training.batch),
        "copied_bytes": training.copied_bytes if where == "copy" else None,
        "ticks": training.truth,
    }


if __name__ == "__main__":
    main()
