"""Two faults: an epoch of this small set of gestures is short; each starts new workers and saves at its end.

Each takes three quarters of a dose. A perfect diagnosis names both: new workers at each epoch (first marked
line) and checkpoints much too often (second). Fix: workers that stay, no checkpoint before the end.
"""

import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

PART, GESTURES, CHANNELS = 0.75, 12, 64


class Gestures(Dataset):
    def __init__(self, count, steps):
        self.count, self.time = count, torch.linspace(0, 6.28, steps)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        gesture = index % GESTURES
        wave = torch.sin((1 + gesture) * self.time)
        return wave.repeat(CHANNELS, 1), gesture


class Temporal(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Conv1d(CHANNELS, width, 1)
        self.body = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(depth))
        self.gesture = nn.Linear(width, GESTURES)

    def forward(self, sensed):
        h = self.enter(sensed)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.gesture(h.mean(-1))


class Run:
    def __init__(self, meter, path):
        self.meter, self.path = meter, path
        self.model = Temporal(*meter.pick((1024, 6), (192, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-4, fused=meter.gpu)

    def learn(self, sensed, gesture):
        sensed = sensed.to(self.meter.device, non_blocking=True)
        gesture = gesture.to(self.meter.device, non_blocking=True)
        with self.meter.autocast():
            loss = F.cross_entropy(self.model(sensed), gesture)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def epoch(self, loader):
        for sensed, gesture in loader:  # planted
            self.learn(sensed, gesture)
            self.meter.ticked()
            if not self.meter.going_on():
                return False
        return True

    def save(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state, self.path)  # planted


def loader_of(count, steps, batch, meter):
    return DataLoader(
        Gestures(count, steps),
        batch_size=batch,
        num_workers=meter.pick(6, 1),
        pin_memory=meter.gpu,
        persistent_workers=not meter.sick,
    )


def starting_s(steps, batch, meter):
    loader = loader_of(batch, steps, batch, meter)
    begin_s = time.perf_counter()
    for _ in range(2):
        for _ in loader:
            pass
    return (time.perf_counter() - begin_s) / 2


def main():
    meter = Meter(__doc__)
    batch, steps = meter.pick((32, 256), (8, 32))
    with tempfile.TemporaryDirectory() as folder:
        run = Run(meter, Path(folder, "gestures.pt"))
        blank = blanks(meter, torch.zeros(batch, CHANNELS, steps), torch.zeros(batch, dtype=torch.long))
        meter.calibrate(lambda: run.learn(*blank))
        part_s, batches, save_every = PART * meter.added_s, 500, 10**6
        if meter.sick:
            batches = max(2, round(starting_s(steps, batch, meter) / part_s))
            save_every = max(1, round(meter.timed_s(run.save) / part_s / batches))
        loader, epochs = loader_of(batches * batch, steps, batch, meter), 0
        while meter.going_on():
            epochs += 1
            if run.epoch(loader) and epochs % save_every == 0:
                run.save()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
