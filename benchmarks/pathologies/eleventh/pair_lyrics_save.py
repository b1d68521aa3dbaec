"""Two faults: rhymes of songs are looked for in Python by the training thread, and the run is saved often.

Each takes three quarters of a dose. A perfect diagnosis names both: a loop of Python on the training thread
(first marked line), and checkpoints much too often (second). Fix: rhymes from a table of endings, and a
checkpoint at the end.
"""

import random
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SIZE, VERSES = 0.75, 32, 400


def song_book():
    rng = random.Random(0)
    return ["".join(rng.choice("aeioulmnrst") for _ in range(24)) for _ in range(VERSES)]


class RhymeSearch:
    """How many letters from the end two verses share."""

    def __init__(self, verses):
        self.verses = verses

    def rhyme(self, one, other):
        shared = 0
        for left, right in zip(reversed(one), reversed(other), strict=True):
            shared += left == right  # planted
        return shared

    def find(self, start, pairs):
        verses = self.verses
        found = [
            self.rhyme(verses[(start + n) % VERSES], verses[(start + 7 * n) % VERSES]) for n in range(pairs)
        ]
        return torch.tensor(found, dtype=torch.float32)


class RhymeTable(RhymeSearch):
    """Letters as numbers, once; all pairs in one comparison."""

    def __init__(self, verses):
        super().__init__(verses)
        self.letters = torch.tensor([[ord(letter) for letter in verse] for verse in verses])

    def find(self, start, pairs):
        n = torch.arange(pairs)
        one, other = self.letters[(start + n) % VERSES], self.letters[(start + 7 * n) % VERSES]
        return (one == other).sum(1).float()


class SongNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SIZE, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, verses):
        h = self.enter(verses)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h)[:, 0].float()


class Training:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.net = SongNet(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.verses = torch.randn(self.rows, SIZE, device=meter.device)
        self.rhymes = torch.zeros(self.rows, device=meter.device)

    def step(self, fresh):
        fresh = fresh[: self.rows]
        fresh = fresh.pin_memory() if self.meter.gpu else fresh
        self.rhymes[: len(fresh)].copy_(fresh, non_blocking=True)
        with self.meter.autocast():
            guess = self.net(self.verses)
        loss = F.smooth_l1_loss(guess, self.rhymes)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Checkpoints:
    def __init__(self, folder, training, every):
        self.path, self.training, self.every = Path(folder, "last.pt"), training, every

    def save(self):
        torch.save(self.training.net.state_dict(), self.path)  # planted

    def after(self, step):
        if step % self.every == 0:
            self.save()


def main():
    meter = Meter(__doc__)
    training, verses = Training(meter), song_book()
    slow, quick = RhymeSearch(verses), RhymeTable(verses)
    meter.calibrate(lambda: training.step(quick.find(0, 16)))
    pairs = 16
    if meter.dose:
        # The save that follows waits for the GPU, so the search is ahead of it by less than a tick.
        each_s = meter.timed_s(lambda: slow.find(0, 200), calls=10) / 200
        pairs = max(16, round((meter.host_s - (1 - PART) * meter.added_s) / each_s))
    rhymes = slow if meter.sick else quick
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder, training, every=1_000_000)
        if meter.sick:
            once_s = meter.timed_s(checkpoints.save, calls=6)
            checkpoints.every = max(1, round(once_s / (PART * meter.added_s)))
        while meter.going_on():
            with meter.injecting():
                fresh = rhymes.find(meter.ticks, pairs)
            training.step(fresh)
            meter.ticked()
            with meter.injecting():
                checkpoints.after(meter.ticks)
        meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
