"""A surrogate of stirred water: the stirring, a sum of waves along one axis, is worked out on the whole grid.

How many waves there are is the dose. A perfect diagnosis: a chain of elementwise kernels over large tensors,
bound by the GPU's memory (marked below). Fix: the waves on the axis alone, spread over the grid once.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CELL = 8


class Stirring:
    """Waves of some amplitudes and phases, which go on with time."""

    def __init__(self, shape, device):
        self.shape, self.time = shape, 0.0
        axis = torch.linspace(0, 6.28, shape[-1], device=device)
        self.axis, self.grid = axis, axis.expand(shape).contiguous()
        self.waves = [(1, 0.1, 0.0)]

    def stir(self, count):
        self.waves = [(1 + n % 9, 0.1 / (1 + n), 0.3 * n) for n in range(count)]

    def add_up(self, x):
        force = torch.zeros_like(x)
        for number, size, phase in self.waves:
            force = force + size * torch.sin(number * x + phase + self.time)  # planted
        self.time += 0.01
        return force

    def on_grid(self):
        return self.add_up(self.grid)

    def on_axis(self):
        return self.add_up(self.axis).expand(self.shape)


class Surrogate(nn.Module):
    def __init__(self, features, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(features, width), nn.Linear(width, features)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, cells):
        h = self.enter(cells)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return cells + self.leave(h).float()


class Simulation:
    def __init__(self, meter):
        self.meter, shape = meter, meter.pick((64, 512, 1024), (4, 32, 32))
        self.water = torch.rand(shape, device=meter.device)
        self.stirring = Stirring(shape, meter.device)
        self.net = Surrogate(shape[0], *meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)

    @torch.no_grad()
    def cells(self, force):
        stirred = torch.add(self.water, force(), alpha=0.05)
        return F.avg_pool2d(stirred[None], CELL)[0].flatten(1).T.contiguous()

    def step(self, force):
        cells = self.cells(force)
        with self.meter.autocast():
            ahead = self.net(cells)
        loss = F.mse_loss(ahead, cells.roll(1, 0))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    simulation = Simulation(meter)
    stirring = simulation.stirring
    meter.calibrate(lambda: simulation.step(stirring.on_axis))
    if meter.dose:
        stirring.stir(8)
        wave_s = meter.timed_s(stirring.on_grid, calls=5) / 8
        stirring.stir(max(1, round(meter.added_s / wave_s)))
    force = stirring.on_grid if meter.sick else stirring.on_axis
    while meter.going_on():
        simulation.step(force)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
