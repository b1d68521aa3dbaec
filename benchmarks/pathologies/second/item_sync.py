"""A GAN that reads its losses with `.item()` every step and then keeps statistics of them in Python.

The statistics alone would be hidden: while the host counts, the GPU would still work on what was launched
before. It is the wait at `.item()` that empties the GPU first. So the doses are kept below one healthy tick:
about 25, 38 and 47 % of the time. A perfect diagnosis names the sync at the line marked below; the statistics
(`Statistics.add`) are second best. Fix: the losses are read every 50th step only.
"""

import statistics
import time

import torch
from meter import Meter
from torch import nn
from torch.nn.functional import softplus

SHARES = (0.0, 1 / 3, 0.6, 0.9)


class Statistics:
    """Mean, median and spread over the last losses; `rounds` says over how many of them."""

    def __init__(self):
        self.kept, self.rounds = [0.0] * 64, 0

    def add(self, values):
        self.kept = [*self.kept[len(values) :], *values]
        for _ in range(self.rounds):
            mean = sum(self.kept) / len(self.kept)
            spread = sum((value - mean) ** 2 for value in self.kept)
            self.last = mean, spread, statistics.median(self.kept)


def block(width):
    return nn.Sequential(nn.Linear(width, width), nn.LeakyReLU(0.2))


class Gan:
    def __init__(self, device, noise, width, depth):
        self.noise, self.device = noise, device
        maker = [nn.Linear(noise, width), *(block(width) for _ in range(depth)), nn.Linear(width, 784)]
        critic = [nn.Linear(784, width), *(block(width) for _ in range(depth)), nn.Linear(width, 1)]
        self.maker, self.critic = nn.Sequential(*maker).to(device), nn.Sequential(*critic).to(device)
        self.of_maker = torch.optim.Adam(self.maker.parameters(), 1e-5, fused=device.type == "cuda")
        self.of_critic = torch.optim.Adam(self.critic.parameters(), 1e-5, fused=device.type == "cuda")

    def step(self, real, autocast):
        with autocast():
            fake = self.maker(torch.randn(len(real), self.noise, device=self.device))
            critic_loss = softplus(-self.critic(real)).mean() + softplus(self.critic(fake.detach())).mean()
        self.of_critic.zero_grad()
        critic_loss.backward()
        self.of_critic.step()
        with autocast():
            maker_loss = softplus(-self.critic(fake)).mean()
        self.of_maker.zero_grad()
        maker_loss.backward()
        self.of_maker.step()
        return critic_loss.detach(), maker_loss.detach()


def main():
    meter = Meter(__doc__)
    gan = Gan(meter.device, 128, *meter.pick((4096, 3), (192, 1)))
    real = torch.rand(meter.pick(8192, 128), 784, device=meter.device)
    healthy_s = meter.calibrate(lambda: gan.step(real, meter.autocast))
    board = Statistics()
    board.rounds = 200
    rounds_s = meter.timed_s(lambda: board.add([0.5, 0.5]), calls=5)
    board.rounds = round(200 * SHARES[meter.dose] * healthy_s / rounds_s)
    last = [0.0, 0.0]
    while meter.going_on():
        losses = gan.step(real, meter.autocast)
        if meter.sick or meter.ticks % 50 == 0:
            last = [loss.item() for loss in losses]  # planted
        begin_s = time.perf_counter()
        board.add(last)
        if meter.sick:
            meter.injected_s += time.perf_counter() - begin_s
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
