"""Healthy control: a controller of tanks of algae, whose newest readings are scaled by a net on the CPU.

Tempting: a module on the CPU that computes in every step; but it is tiny, asks nothing of the GPU, and what
it says is sent without waiting, while the GPU still has the last step before it. A perfect diagnosis:
healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

READINGS, VALVES = 16, 5


class Scaler(nn.Module):
    """Comes with the sensors, and follows them slowly."""

    def __init__(self):
        super().__init__()
        self.bend = nn.Linear(READINGS, READINGS)
        self.register_buffer("mean", torch.zeros(READINGS))
        self.requires_grad_(False)

    def forward(self, readings):
        self.mean.lerp_(readings.mean(0), 0.01)
        return self.bend(readings - self.mean).tanh()


class Controller(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(READINGS, width), nn.Linear(width, VALVES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, readings):
        h = self.enter(readings)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class Plant:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.scaler, self.newest = Scaler(), meter.pick(64, 8)
        self.net = Controller(*meter.pick((4096, 6), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.readings, self.at = torch.randn(rows, READINGS, device=meter.device), 0

    def read(self):
        scaled = self.scaler(torch.randn(self.newest, READINGS))
        scaled = scaled.pin_memory() if self.meter.gpu else scaled
        self.readings[self.at : self.at + self.newest].copy_(scaled, non_blocking=True)
        self.at = (self.at + self.newest) % len(self.readings)

    def tick(self):
        self.read()
        with self.meter.autocast():
            valves = self.net(self.readings)
        loss = F.mse_loss(valves, self.readings[:, :VALVES].roll(1, 0))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    plant = Plant(meter)
    meter.calibrate(plant.tick)
    while meter.going_on():
        plant.tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
