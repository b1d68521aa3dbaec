"""Birds' songs, and a forward hook that shows how a hidden layer drifts; it keeps all it has ever seen.

How much it keeps of each step is the dose, so that a run's mean is what the dose says: what is kept, and the
time to compare with it, grow from step to step. A perfect diagnosis: the GPU's memory grows steadily, by the
blocks added at the line marked below. Fix: the last block is written over.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BANDS, SONGS = 64, 25


class DriftProbe:
    """How well the newest rows are known from earlier ones."""

    def __init__(self, module, block, newest, forgets=True):
        self.block, self.newest, self.forgets, self.rows, self.at = block, newest, forgets, 16, 0
        self.blocks, self.drift = [], None
        self.handle = module.register_forward_hook(self.look)

    def room_for(self, rows):
        """A part of the last block, or of a new one if that is full."""
        if not self.blocks or self.at + len(rows) > self.block:
            if not self.blocks or not self.forgets:
                self.blocks.append(rows.new_zeros(self.block, rows.shape[1]))  # planted
            self.at = 0
        self.at += len(rows)
        return self.blocks[-1][self.at - len(rows) : self.at]

    @torch.no_grad()
    def look(self, module, inputs, output):
        if module.training:
            rows = output[: self.rows]
            self.room_for(rows).copy_(rows)
            self.compare(output[: self.newest])

    def compare(self, newest):
        known = [(block @ newest.T).amax(0) for block in self.blocks]
        self.drift = torch.stack(known).amax(0).mean()


class SongNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.song = nn.Linear(BANDS, width), nn.Linear(width, SONGS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, bands):
        h = self.enter(bands)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.song(h).float()


class Training:
    def __init__(self, meter):
        self.meter, (self.rows, self.width, depth, block, newest) = (
            meter,
            meter.pick((8192, 4096, 5, 32_768, 768), (64, 64, 3, 256, 16)),
        )
        self.net = SongNet(self.width, depth).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.bands = torch.randn(self.rows, BANDS, device=meter.device)
        self.songs = torch.randint(SONGS, (self.rows,), device=meter.device)
        self.probe = DriftProbe(self.net.body[-1], block, newest)

    def step(self):
        with self.meter.autocast():
            scores = self.net(self.bands)
        loss = F.cross_entropy(scores, self.songs)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def rows_for(meter, training):
    """Rows of each step, if what is added on average is to be the dose."""
    probe = training.probe
    newest = torch.randn_like(probe.blocks[0][: probe.newest])
    row_s = meter.timed_s(lambda: probe.compare(newest), calls=10) / probe.block
    ticks = 0.85 * meter.seconds / (meter.healthy_s + meter.added_s)
    return max(16, min(training.rows, round(2 * meter.added_s / row_s / ticks)))


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    meter.calibrate(training.step)
    if meter.dose:
        training.probe.rows = rows_for(meter, training)
    training.probe.forgets = not meter.sick
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
