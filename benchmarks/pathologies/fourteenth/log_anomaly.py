"""Is there something odd in the log of a server? An autoencoder over counts; beside it, new lines are sorted.

A thread splits lines into words, hides numbers, and counts templates, for the next training. For how much
of the time it does is the dose. A perfect diagnosis: another Python thread holds the interpreter (any
line marked below). Fix: a process of its own.
"""

import itertools
import multiprocessing
import random
import threading
import time
from collections import defaultdict

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

COUNTS, BATCH, ROUND_S = 256, 128, 0.25
VERBS = ("opened", "closed", "refused", "retried", "timed", "accepted", "dropped", "moved")


def new_lines(seed, count=60):
    rng = random.Random(seed)
    return [
        f"{rng.randrange(10**9)} host{rng.randrange(40)} svc[{rng.randrange(9999)}]: connection "
        f"{rng.choice(VERBS)} by 10.0.{rng.randrange(256)}.{rng.randrange(256)} after {rng.random():.3f} s"
        for _ in range(count)
    ]


class TemplateMiner:
    def __init__(self):
        self.templates = defaultdict(int)

    def template(self, line):
        words = []
        for word in line.split():
            shown = "".join("#" if letter.isdigit() else letter for letter in word)  # planted
            while "##" in shown:
                shown = shown.replace("##", "#")  # planted
            words.append(shown)
        return " ".join(words)

    def mine(self, until_s):
        seed = 0
        while time.perf_counter() < until_s:
            seed = (seed + 1) % 50
            for line in new_lines(seed, 8):  # planted
                self.templates[self.template(line)] += 1  # planted


def watch_log(stop, busy_s):
    miner = TemplateMiner()
    while not stop.is_set():
        begin_s = time.perf_counter()
        miner.mine(begin_s + busy_s)
        stop.wait(max(0.005, ROUND_S - (time.perf_counter() - begin_s)))


class Autoencoder(nn.Module):
    def __init__(self, sizes=(COUNTS, 224, 96, 24)):
        super().__init__()
        pairs = list(itertools.pairwise(sizes))
        self.encoder = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.decoder = nn.ModuleList(nn.Linear(b, a) for a, b in reversed(pairs))

    def forward(self, counts):
        h = counts
        for layer in (*self.encoder, *self.decoder):
            h = F.softsign(layer(h))
        return h


def main():
    meter = Meter(__doc__)
    model = Autoencoder().to(meter.device)
    optimizer = torch.optim.Adadelta(model.parameters())
    counts = torch.rand(BATCH * 4, COUNTS, device=meter.device)

    def step():
        """Four small batches to a step."""
        optimizer.zero_grad()
        for part in counts.split(BATCH):
            noisy = part * (torch.rand_like(part) > 0.1)
            loss = (model(noisy) - part).square().mean() / 4
            loss.backward()
        optimizer.step()

    meter.calibrate(step)
    busy_s = ROUND_S * meter.share / (1 + meter.share)
    context = multiprocessing.get_context("fork")
    stop = threading.Event() if meter.sick else context.Event()
    kind = threading.Thread if meter.sick else context.Process
    watcher = kind(target=watch_log, args=(stop, busy_s), daemon=True)
    watcher.start()
    while meter.going_on():
        step()
        meter.ticked()
    meter.report(excess=True)
    stop.set()
    watcher.join()


if __name__ == "__main__":
    main()
