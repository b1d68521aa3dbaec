"""Hunters in a forest, in processes of their own; they and the learner meet at a barrier, twice a round.

How long a hunt is is the dose. A perfect diagnosis: while they hunt, the GPU waits, and while it learns, they
wait (the barrier marked below). Fix: the next hunt goes on while the last one is learned from.
"""

import multiprocessing
import random
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TRACES, ROWS = 12, 64


def hunter(number, traces, length, door):
    """Follows its nose, between two meetings."""
    torch.set_num_threads(1)
    rng, half = random.Random(number), 0
    smell = [rng.random() for _ in range(TRACES)]
    while True:
        door.wait()
        found = []
        for step in range(length.value):
            best = max(range(TRACES), key=smell.__getitem__)
            smell = [0.9 * s + 0.1 * rng.random() for s in smell]
            smell[best] *= 0.5
            if step < ROWS:
                found.append(smell)
        traces[half, number, : len(found)] = torch.tensor(found)
        half = 1 - half
        door.wait()


@dataclass
class Forest:
    hunters: int

    def __post_init__(self):
        context = multiprocessing.get_context("fork")
        self.traces = torch.zeros(2, self.hunters, ROWS, TRACES).share_memory_()
        self.length = context.RawValue("i", ROWS)
        self.door = context.Barrier(self.hunters + 1)
        self.half = 0
        self.processes = [
            context.Process(target=hunter, args=(n, self.traces, self.length, self.door), daemon=True)
            for n in range(self.hunters)
        ]
        for process in self.processes:
            process.start()

    def begin(self):
        self.door.wait()

    def finish(self):
        self.door.wait()  # planted
        self.half = 1 - self.half
        return self.traces[1 - self.half]

    def leave(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()


class Nose(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(TRACES, width), nn.Linear(width, TRACES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, traces):
        h = self.enter(traces)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return traces + self.leave(h).float()


def length_for(meter, forest, wanted_s):
    times = []
    for length in (ROWS, ROWS + 400):
        forest.length.value = length
        times.append(meter.timed_s(lambda: (forest.begin(), forest.finish()), calls=6))
    return max(ROWS // 4, round(ROWS + (wanted_s - times[0]) * 400 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    forest, rows = Forest(meter.pick(6, 1)), meter.pick(8192, 128)
    nose = Nose(*meter.pick((4096, 5), (320, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(nose.parameters(), 1e-5, fused=meter.gpu)
    seen = torch.rand(rows, TRACES, device=meter.device)

    def learn(traces):
        new = traces.flatten(0, 1).to(meter.device)
        seen[: len(new)] = new[:rows]
        with meter.autocast():
            ahead = nose(seen)
        loss = F.mse_loss(ahead[:-1], seen[1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.sync()

    meter.calibrate(lambda: learn(forest.traces[0]))
    forest.length.value = length_for(meter, forest, meter.added_s) if meter.dose else 4
    if not meter.sick:
        forest.begin()
    while meter.going_on():
        with meter.injecting():
            if meter.sick:
                forest.begin()
            traces = forest.finish()
        if not meter.sick:
            forest.begin()
        learn(traces)
        meter.ticked()
    meter.report(excess=meter.gpu)
    forest.leave()


if __name__ == "__main__":
    main()
