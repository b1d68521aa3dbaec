"""Two faults: each glider asks the policy for itself, and then flies, one after another in Python.

Each takes three quarters of a dose. A perfect diagnosis names both: one inference for each glider
(first marked line) and the flights on the training thread (second). Fix: one inference, gliders as arrays.
"""

import math

import numpy as np
import torch
from stopwatch import Meter
from torch import nn

PART, SEEN = 0.75, 4


class Glider:
    def __init__(self, seed, substeps):
        self.substeps = substeps
        self.height, self.speed, self.pitch, self.air = 100.0, 12.0, 0.01 * seed, 0.0

    def looks(self):
        return [self.height / 100, self.speed / 10, self.pitch, self.air]

    def advance(self, stick):
        dt = 0.1 / self.substeps
        for _ in range(self.substeps):
            self.air = 0.99 * self.air + 0.01 * math.sin(self.height)
            self.pitch += dt * (stick - self.pitch)
            self.speed += dt * (-9.8 * math.sin(self.pitch) - 0.01 * self.speed * abs(self.speed))
            self.height += dt * (self.speed * math.sin(self.pitch) + self.air)
        return -abs(self.height - 100) / 100


class Squadron:
    """The same flights, as arrays."""

    def __init__(self, count, substeps):
        self.substeps = substeps
        self.height, self.speed = np.full(count, 100.0), np.full(count, 12.0)
        self.pitch, self.air = 0.01 * np.arange(count), np.zeros(count)

    def looks(self):
        return np.stack([self.height / 100, self.speed / 10, self.pitch, self.air], 1).tolist()

    def advance(self, stick):
        dt = 0.1 / min(self.substeps, 20)
        for _ in range(min(self.substeps, 20)):
            self.air = 0.99 * self.air + 0.01 * np.sin(self.height)
            self.pitch += dt * (stick - self.pitch)
            self.speed += dt * (-9.8 * np.sin(self.pitch) - 0.01 * self.speed * np.abs(self.speed))
            self.height += dt * (self.speed * np.sin(self.pitch) + self.air)
        return (-np.abs(self.height - 100) / 100).tolist()


class Pilot(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(SEEN, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.stick, self.value = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, seen):
        h = torch.tanh(self.enter(seen))
        for layer in self.body:
            h = h + torch.tanh(layer(h))
        return self.stick(h).float(), self.value(h).float()


class PPO:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 256)
        self.pilot = Pilot(*meter.pick((4096, 5), (192, 3))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.pilot.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randn(rows, SEEN, device=meter.device)
        self.stick = torch.randn(rows, 1, device=meter.device)
        self.reward = torch.zeros(rows, 1, device=meter.device)

    @torch.no_grad()
    def decide(self, looks):
        with self.meter.autocast():
            mean, _ = self.pilot(torch.tensor(looks).to(self.meter.device))
        return (mean + 0.2 * torch.randn_like(mean))[:, 0].tolist()

    def remember(self, looks, rewards):
        count = min(len(looks), len(self.seen))
        self.seen[:count] = torch.tensor(looks[:count]).to(self.meter.device)
        self.reward[:count, 0] = torch.tensor(rewards[:count]).to(self.meter.device)

    def update(self):
        with self.meter.autocast():
            mean, value = self.pilot(self.seen)
        gain = self.reward - value
        likely = -0.5 * ((self.stick - mean) / 0.2).square()
        ratio = (likely - likely.detach()).exp()
        bounded = ratio.clamp(0.8, 1.2) * gain.detach()
        loss = -torch.min(ratio * gain.detach(), bounded).mean() + gain.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def sized(meter, ppo):
    """How many gliders cost a part in inferences, and how fine their flight must be to cost another."""
    glider = Glider(0, 1000)
    substep_s = meter.timed_s(lambda: glider.advance(0.1)) / 1000
    one_s = meter.timed_s(lambda: ppo.decide([glider.looks()]), calls=20)
    part_s = PART * meter.added_s
    count = max(4, round(part_s / one_s))
    return count, max(1, round(part_s / count / substep_s))


def main():
    meter = Meter(__doc__)
    ppo = PPO(meter)
    meter.calibrate(lambda: (ppo.decide([[0.0] * SEEN]), ppo.update()))
    count, substeps = sized(meter, ppo)
    gliders, squadron = [Glider(n, substeps) for n in range(count)], Squadron(count, substeps)
    while meter.going_on():
        if meter.sick:
            looks, rewards = [glider.looks() for glider in gliders], []
            for glider, look in zip(gliders, looks, strict=True):
                stick = ppo.decide([look])[0]  # planted
                rewards.append(glider.advance(stick))  # planted
        else:
            looks = squadron.looks()
            rewards = squadron.advance(np.array(ppo.decide(looks)))
        ppo.remember(looks, rewards)
        ppo.update()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
