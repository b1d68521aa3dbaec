"""Healthy control: an LSTM that foresees the load of a power grid, with the memory carried from step to step.

Gradients are clipped, the rate is scheduled, truncated sequences follow each other. A perfect diagnosis:
healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATIONS = 48


class Grid(nn.Module):
    def __init__(self, hidden, layers, wide):
        super().__init__()
        self.enter = nn.Linear(STATIONS, hidden)
        self.memory = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.leave = nn.Sequential(nn.Linear(hidden, wide), nn.GELU(), nn.Linear(wide, STATIONS))

    def forward(self, load, carried):
        h, carried = self.memory(self.enter(load), carried)
        return self.leave(h), carried


class Truncated:
    """Backpropagation through a window of time; what is remembered goes on."""

    def __init__(self, meter):
        self.meter, (self.grids, self.window) = meter, meter.pick((1024, 24), (16, 8))
        hidden, layers, wide = meter.pick((1536, 2, 6144), (64, 2, 128))
        self.model = Grid(hidden, layers, wide).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4, fused=meter.gpu)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 0.1, 1.0, 500)
        self.load = torch.rand(self.grids, 20 * self.window + 1, STATIONS, device=meter.device)
        self.at, self.carried = 0, None

    def step(self):
        if self.at + self.window >= self.load.shape[1]:
            self.at, self.carried = 0, None
        past = self.load[:, self.at : self.at + self.window]
        ahead = self.load[:, self.at + 1 : self.at + self.window + 1]
        with self.meter.autocast():
            guess, carried = self.model(past, self.carried)
        self.carried = tuple(part.detach() for part in carried)
        loss = F.mse_loss(guess.float(), ahead)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.at += self.window


def main():
    meter = Meter(__doc__)
    training = Truncated(meter)
    meter.calibrate(training.step)
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
