"""Healthy control: segmentation of coral reefs by a hand-written trainer with many callbacks and loggers.

Tempting: seven callbacks after every step, in Python; but each takes less than a microsecond, and the loss is
read every hundred steps. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing;
there is no planted line.
"""

import time
from collections import Counter

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

REEF = 5


class Callback:
    def after_step(self, trainer):
        pass


class Clock(Callback):
    def after_step(self, trainer):
        trainer.log["seconds"] = time.monotonic()


class Count(Callback):
    def after_step(self, trainer):
        trainer.counts["steps"] += 1


class LearningRate(Callback):
    def after_step(self, trainer):
        trainer.log["lr"] = trainer.optimizer.param_groups[0]["lr"]


class Loss(Callback):
    """Now and then."""

    def after_step(self, trainer):
        if trainer.counts["steps"] % 100 == 0:
            trainer.log["loss"] = trainer.loss.item()


class UpDown(nn.Module):
    """A little U, with one way across."""

    def __init__(self, width, depth):
        super().__init__()
        self.down, self.low = nn.Conv2d(3, width, 4, stride=4), nn.Conv2d(width, width, 2, stride=2)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.high = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.up = nn.ConvTranspose2d(width, REEF, 4, stride=4)

    def forward(self, reef):
        across = self.down(reef)
        h = self.low(across)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.up(across + self.high(h))


class Trainer:
    def __init__(self, meter, *callbacks):
        self.meter, self.callbacks, self.log, self.counts = meter, callbacks, {}, Counter()
        batch, side = meter.pick((64, 192), (3, 64))
        self.net = UpDown(*meter.pick((384, 9), (72, 8))).to(meter.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-4, momentum=0.9, foreach=True)
        self.reef = torch.rand(batch, 3, side, side, device=meter.device)
        self.kinds = torch.randint(REEF, (batch, side, side), device=meter.device)

    def training_step(self):
        with self.meter.autocast():
            scores = self.net(self.reef)
        return F.cross_entropy(scores.float(), self.kinds)

    def step(self):
        loss = self.training_step()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.loss = loss.detach()
        for callback in self.callbacks:
            callback.after_step(self)

    def fit(self):
        while self.meter.going_on():
            self.step()
            self.meter.ticked()


def main():
    meter = Meter(__doc__)
    trainer = Trainer(meter, Clock(), Count(), LearningRate(), Loss(), Callback(), Clock(), LearningRate())
    meter.calibrate(trainer.step)
    trainer.fit()
    meter.report()


if __name__ == "__main__":
    main()
