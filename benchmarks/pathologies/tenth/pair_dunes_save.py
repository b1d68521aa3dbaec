"""Two faults: sand is blown over whole deserts, of which few places are learned, and the run is saved often.

Each takes three quarters of a dose. A perfect diagnosis names both: a chain of elementwise kernels over
large tensors, bound by the GPU's memory (first marked line), and checkpoints much too often (second). Fix:
the places are cut out first, and a checkpoint at the end.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, LAYERS = 0.75, 64


class Wind:
    """Some gusts, each of which carries off sand and lets it fall."""

    def __init__(self, gusts):
        self.gusts = gusts

    @torch.no_grad()
    def blow(self, sand):
        for gust in range(self.gusts):
            sand = sand - 0.01 * torch.relu(sand - 0.1 * (gust % 7)) + 0.003  # planted
        return sand


class DuneNet(nn.Module):
    """From the layers of a place before the wind to those after it."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(LAYERS, width), nn.Linear(width, LAYERS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, places):
        h = self.enter(places)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return places + self.leave(h).float()


class Desert:
    def __init__(self, meter):
        self.meter, (self.rows, places) = meter, meter.pick((8192, 1_048_576), (64, 2048))
        self.net = DuneNet(*meter.pick((4096, 5), (64, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.sand, self.wind = torch.rand(places, LAYERS, device=meter.device), Wind(1)

    def step(self, cut_first):
        start = int(torch.randint(len(self.sand) - self.rows, ()))
        before = self.sand[start : start + self.rows]
        after = self.wind.blow(before) if cut_first else self.wind.blow(self.sand)[start : start + self.rows]
        with self.meter.autocast():
            guess = self.net(before)
        loss = F.mse_loss(guess, after)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Keeper:
    """The first and the last layer are enough to begin again, somebody thought, if they are kept often."""

    def __init__(self, folder, net, every):
        self.file, self.net, self.every = Path(folder, "dunes.pt"), net, every

    def save(self):
        layers = {"enter": self.net.enter, "last": self.net.body[-1], "leave": self.net.leave}
        torch.save({name: layer.state_dict() for name, layer in layers.items()}, self.file)  # planted

    def after(self, step):
        if step % self.every == 0:
            self.save()


def main():
    meter = Meter(__doc__)
    desert = Desert(meter)
    wind = desert.wind
    meter.calibrate(lambda: desert.step(cut_first=True))
    part_s = PART * meter.added_s
    if meter.dose:
        wind.gusts = 8
        gust_s = meter.timed_s(lambda: wind.blow(desert.sand), calls=5) / 8
        wind.gusts = max(1, round(part_s / gust_s))
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(folder, desert.net, every=1_000_000)
        if meter.sick:
            keeper.every = max(1, round(meter.timed_s(keeper.save, calls=4) / part_s))
        while meter.going_on():
            desert.step(cut_first=not meter.sick)
            meter.ticked()
            keeper.after(meter.ticks)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
