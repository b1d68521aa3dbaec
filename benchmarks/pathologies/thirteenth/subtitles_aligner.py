"""A small translator learns from subtitles; beside it, a thread aligns new ones, for the next training.

It does so by dynamic programming in plain Python. For how much of the time it does is the dose. A perfect
diagnosis: another Python thread holds the interpreter, and the training thread cannot give orders to the GPU
(any line marked below). Fix: a process of its own.
"""

import multiprocessing
import random
import threading
import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WORDS, LINES, PERIOD_S, NOTED = 4096, 60, 0.2, 4


class Film:
    """How long the lines of a film are in two languages."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.here = [rng.randint(3, 60) for _ in range(LINES)]
        self.there = [max(1, size + rng.randint(-4, 4)) for size in self.here]

    def align(self, until_s):
        costs = [float(other) for other in range(LINES + 1)]
        for mine in self.here:
            last, costs[0] = costs[0], costs[0] + mine
            for number, theirs in enumerate(self.there, 1):
                alike = last + abs(mine - theirs)  # planted
                last = costs[number]
                costs[number] = min(alike, last + mine, costs[number - 1] + theirs)  # planted
            if time.perf_counter() >= until_s:
                break
        return costs[-1]


def keep_aligning(over, busy_s):
    seed = 0
    while not over.is_set():
        begin_s = time.perf_counter()
        while time.perf_counter() < begin_s + busy_s:
            seed += 1
            Film(seed % 16).align(begin_s + busy_s)  # planted
        over.wait(max(0.01, PERIOD_S - (time.perf_counter() - begin_s)))


class Aligner:
    def __init__(self, busy_s, own_process):
        context = multiprocessing.get_context("fork")
        self.over = context.Event() if own_process else threading.Event()
        kind = context.Process if own_process else threading.Thread
        self.runner = kind(target=keep_aligning, args=(self.over, busy_s), daemon=True)

    def __enter__(self):
        self.runner.start()

    def __exit__(self, *_):
        self.over.set()
        self.runner.join()


class Translator(nn.Module):
    """Words are mixed by gates along the line, then each for itself."""

    def __init__(self, length, size, depth):
        super().__init__()
        self.word, self.say = nn.Embedding(WORDS, size), nn.Linear(size, WORDS)
        self.along = nn.ModuleList(nn.Linear(length, length) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(size, 4 * size) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Linear(4 * size, size) for _ in range(depth))

    def forward(self, words):
        h = self.word(words)
        for along, wide, narrow in zip(self.along, self.wide, self.narrow, strict=True):
            h = h + along(h.transpose(1, 2)).transpose(1, 2)
            h = h + narrow(F.gelu(wide(h)))
        return self.say(h[:, -4:]).float()


def main():
    meter = Meter(__doc__)
    lines, length = meter.pick((128, 64), (6, 8))
    net = Translator(length, *meter.pick((1024, 7), (48, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    words, losses = torch.randint(WORDS, (lines, length), device=meter.device), []

    def step():
        with meter.autocast():
            said = net(words)
        loss = F.cross_entropy(said.flatten(0, 1), words[:, -4:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    meter.calibrate(step)
    # A GPU still has orders for a step or two when no more come.
    busy_s = PERIOD_S * meter.share / (1 + meter.share) + meter.pick(2 * meter.healthy_s, 0.0)
    with Aligner(busy_s * bool(meter.dose), own_process=not meter.sick):
        while meter.going_on():
            loss = step()
            meter.ticked()
            if meter.ticks % NOTED == 0:
                losses.append(loss.item())
        meter.report(excess=True)


if __name__ == "__main__":
    main()
