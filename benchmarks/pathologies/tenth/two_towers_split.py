"""Adverts and readers, a tower for each; the global batch is shared out among GPUs that are no longer there.

A pair takes 1.4, 2.2 and 3.5 times as long as with the whole batch at doses 1 to 3; compare
`samples_per_s`. A perfect diagnosis: the batch is too small for the GPU, as a step's cost hardly depends on
it, and most of the memory is free; the size is used at the line marked below. Fix: the number of GPUs there
are.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TIMES = (1.0, 1.4, 2.2, 3.5)
FEATURES, SIZE = 128, 256


@dataclass
class Config:
    """As it was written for the cluster."""

    global_batch: int
    width: int
    gpus: int = 1

    @property
    def batch(self):
        return self.global_batch // self.gpus


def tower(width):
    return nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, SIZE)
    )


class TwoTowers(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.reader, self.advert = tower(width), tower(width)

    def forward(self, readers, adverts):
        return self.reader(readers) @ self.advert(adverts).T


class Clicks:
    """Who clicked what, all of it on the device."""

    def __init__(self, count, device):
        self.readers, self.adverts = torch.randn(2, 2 * count, FEATURES, device=device)

    def take(self, count):
        start = int(torch.randint(len(self.readers) - count + 1, ()))
        return self.readers[start : start + count], self.adverts[start : start + count]


class Training:
    def __init__(self, meter, config):
        self.meter, self.config = meter, config
        self.net = TwoTowers(config.width).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.clicks = Clicks(config.global_batch, meter.device)
        self.own = torch.arange(config.global_batch, device=meter.device)

    def step(self, batch):
        readers, adverts = self.clicks.take(batch)
        with self.meter.autocast():
            scores = self.net(readers, adverts)
        loss = F.cross_entropy(scores.float(), self.own[:batch])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def split(training, times):
    """Among so many GPUs that a pair takes so many times as long; the waste of a step."""
    meter, config = training.meter, training.config
    each_s = meter.healthy_s / config.global_batch
    for gpus in range(2, config.global_batch + 1):
        config.gpus = gpus
        tick_s = meter.timed_s(lambda: training.step(config.batch), calls=4)
        if tick_s >= times * config.batch * each_s:
            break
    return max(0.0, tick_s - config.batch * each_s)


def main():
    meter = Meter(__doc__)
    config = Config(*meter.pick((6144, 8192), (64, 256)))
    training, wasted_s = Training(meter, config), 0.0
    meter.calibrate(lambda: training.step(config.batch))
    if meter.sick:
        wasted_s = split(training, TIMES[meter.dose])
    while meter.going_on():
        training.step(config.batch)  # planted
        meter.injected_s += wasted_s
        meter.ticked(samples=config.batch)
    meter.report()


if __name__ == "__main__":
    main()
