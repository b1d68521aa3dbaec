"""Two faults: chords are counted note by note as batches are put together; the run is kept often.

Each takes three quarters of a dose. A perfect diagnosis names both: a slow collate function (first marked
line), and checkpoints every few steps (second). Fix: NumPy counts; no checkpoint before the end.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, PITCHES, BARS = 0.75, 88, 64


class Recordings(Dataset):
    """Notes as pairs of bar and pitch."""

    def __init__(self, notes):
        rng = np.random.default_rng(0)
        self.notes = np.stack([rng.integers(0, BARS, (40, notes)), rng.integers(0, PITCHES, (40, notes))], -1)

    def __len__(self):
        return 600_000

    def __getitem__(self, index):
        return self.notes[index % len(self.notes)]


class PianoRoll:
    def __init__(self, quick):
        self.quick = quick

    def roll(self, notes):
        if self.quick:
            counts = np.bincount(notes[:, 0] * PITCHES + notes[:, 1], minlength=BARS * PITCHES)
            return counts.reshape(BARS, PITCHES)
        counts = [[0] * PITCHES for _ in range(BARS)]
        for bar, pitch in notes.tolist():
            counts[bar][pitch] += 1  # planted
        return np.array(counts)

    def __call__(self, recordings):
        rolls = np.stack([self.roll(notes) for notes in recordings])
        return torch.from_numpy(rolls).clamp_(max=4).to(torch.uint8)


class Transcriber(nn.Module):
    """Foresees the next bar."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(PITCHES, width), nn.Linear(width, PITCHES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, bars):
        h = self.enter(bars)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class Run:
    def __init__(self, meter, folder):
        self.meter, self.folder = meter, folder
        self.net = Transcriber(*meter.pick((1024, 6), (192, 6))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    def learn(self, rolls):
        bars = rolls.to(self.meter.device, non_blocking=True).float() / 4
        with self.meter.autocast():
            guess = self.net(bars[:, :-1])
        loss = F.binary_cross_entropy_with_logits(guess, bars[:, 1:])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def keep(self):
        state = {"net": self.net.state_dict(), "adam": self.optimizer.state_dict(), "at": self.meter.ticks}
        torch.save(state, self.folder / "last.ckpt")  # planted


def notes_taking(meter, wanted_s):
    times = []
    for notes in (100, 20_100):
        recordings, roll = Recordings(notes), PianoRoll(quick=False)
        times.append(meter.timed_s(lambda r=recordings, p=roll: p([r[0]]), calls=20))
    return max(50, round(100 + (wanted_s - times[0]) * 20_000 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    batch, workers = meter.pick(1024, 8), meter.pick(6, 1)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(meter, Path(folder))
        (blank,) = blanks(meter, torch.zeros(batch, BARS, PITCHES, dtype=torch.uint8))
        healthy_s = meter.calibrate(lambda: run.learn(blank))
        part_s, every, notes = PART * meter.added_s, 100_000, 100
        if meter.dose:
            # Batches are put together while the run is kept, too.
            notes = notes_taking(meter, workers * (healthy_s + 2 * part_s) / batch)
        if meter.sick:
            every = max(1, round(meter.timed_s(run.keep, calls=5) / part_s))
        options = {"num_workers": workers, "pin_memory": meter.gpu, "collate_fn": PianoRoll(not meter.sick)}
        stream = iter(DataLoader(Recordings(notes), batch, **options))
        run.learn(next(stream))
        while meter.going_on():
            with meter.injecting():
                rolls = next(stream)
            run.learn(rolls)
            meter.ticked()
            if meter.ticks % every == 0:
                with meter.injecting():
                    run.keep()
        meter.report(excess=meter.gpu)
        del stream


if __name__ == "__main__":
    main()
