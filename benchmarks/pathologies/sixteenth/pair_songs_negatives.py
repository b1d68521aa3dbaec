"""Two faults: a thread counts plays, and songs nobody heard are drawn by the training thread.

Each takes three quarters of a dose. A perfect diagnosis names both: another Python thread holds the
interpreter (first marked line), and loading in the training thread (second). Fix: plays are counted once,
and a worker loads.
"""

import random
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, LISTENERS, SONGS, BATCH, NEGATIVES, PERIOD_S = 0.75, 400, 3000, 64, 24, 0.2


def histories(rng):
    return {
        listener: {rng.randrange(SONGS): rng.randint(1, 9) for _ in range(50)}
        for listener in range(LISTENERS)
    }


class Plays(Dataset):
    """A song that was heard, and others that were not; the least popular of some tries."""

    def __init__(self, heard, popularity, tries):
        self.heard, self.popularity, self.tries = heard, popularity, tries
        self.rng = random.Random(1)

    def __len__(self):
        return 100_000

    def unheard(self, songs):
        best = None
        for _ in range(self.tries):
            song = self.rng.randrange(SONGS)
            if song not in songs and (best is None or self.popularity[song] < self.popularity[best]):
                best = song
        return SONGS - 1 if best is None else best

    def __getitem__(self, index):
        listener = index % LISTENERS
        songs = self.heard[listener]
        liked = self.rng.choice(list(songs))
        others = [self.unheard(songs) for _ in range(4)]
        return listener, np.array([liked, *(others * (NEGATIVES // 4))])


class PlayCounter(threading.Thread):
    def __init__(self, heard, busy_s):
        super().__init__(name="plays", daemon=True)
        self.heard, self.busy_s, self.over, self.totals = heard, busy_s, threading.Event(), {}

    def count(self, listener):
        for song, times in self.heard[listener].items():
            self.totals[song] = 0.9 * self.totals.get(song, 0.0) + times  # planted

    def run(self):
        listener = 0
        while not self.over.is_set():
            begin_s = time.perf_counter()
            while time.perf_counter() - begin_s < self.busy_s:
                self.count(listener % LISTENERS)
                listener += 1
            self.over.wait(PERIOD_S - self.busy_s)


class Taste(nn.Module):
    def __init__(self, size=192):
        super().__init__()
        self.listeners, self.songs = nn.Embedding(LISTENERS, size), nn.Embedding(SONGS, size)
        self.tower = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, size))

    def forward(self, listeners, songs):
        return (self.listeners(listeners)[:, None] * self.tower(self.songs(songs))).sum(2)


def main():
    meter, rng = Meter(__doc__), random.Random(0)
    heard, popularity = histories(rng), [rng.random() for _ in range(SONGS)]
    model = Taste().to(meter.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def learn(listeners, songs):
        scores = model(listeners.to(meter.device), songs.to(meter.device))
        loss = F.softplus(scores[:, 1:] - scores[:, :1]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: learn(torch.arange(BATCH), torch.randint(SONGS, (BATCH, NEGATIVES + 1))))
    part_s, tries = PART * meter.added_s, 1
    if meter.dose:

        def drawing(tries):
            plays = Plays(heard, popularity, tries)
            return lambda: [plays[number] for number in range(BATCH)]

        tries = max(1, amount_taking(meter, drawing, 1, 21, part_s))
    # While the thread counts, the training gets next to nothing done.
    together = PART * meter.share
    counter = PlayCounter(heard, PERIOD_S * together / (1 + 2 * together))
    plays = Plays(heard, popularity, tries)
    batches = iter(DataLoader(plays, BATCH, shuffle=True, num_workers=0 if meter.sick else 1))
    learn(*next(batches))
    if meter.sick:
        counter.start()
    else:
        for listener in range(LISTENERS):
            counter.count(listener)
    while meter.going_on():
        batch = next(batches)  # planted
        learn(*batch)
        meter.ticked()
    meter.report(excess=True)
    counter.over.set()
    if meter.sick:
        counter.join()
    del batches


if __name__ == "__main__":
    main()
