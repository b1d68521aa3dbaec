"""Two faults: rovers on slopes are simulated by the training thread, and the target critic is kept in fp32.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped one after another
while the GPU waits (first marked line), and large products without tensor cores, of a critic that is asked
outside autocast (second). Fix: all rovers at once, as arrays, and the target inside autocast.
"""

import copy
import math
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, PULLS, PART = 4, 3, 0.75


class Rover:
    def __init__(self, number):
        self.state = [0.01 * number, 0.0, 0.0, 0.0]

    def roll(self, pull, substeps):
        x, v, heat, wear = self.state
        for _ in range(substeps):
            slope = 0.3 * math.sin(3 * x) + 0.1 * math.cos(7 * x)
            v += 0.01 * (pull - 1 - slope - 0.5 * v)
            x += 0.01 * v
            heat += 0.01 * (abs(pull - 1) - 0.2 * heat)
            wear = min(1.0, wear + 1e-5 * heat)
        self.state = [x, v, heat, wear]
        return [*self.state, v - 0.1 * heat]


class Slope:
    def __init__(self, rovers, substeps):
        self.rovers, self.substeps = [Rover(number) for number in range(rovers)], substeps

    def step(self, pulls):
        pairs = zip(self.rovers, pulls.tolist(), strict=True)
        return np.array([rover.roll(pull, self.substeps) for rover, pull in pairs], np.float32)  # planted


class SlopeOfArrays:
    def __init__(self, rovers, substeps):
        self.state, self.substeps = np.zeros((4, rovers)), substeps
        self.state[0] = 0.01 * np.arange(rovers)

    def step(self, pulls):
        x, v, heat, wear = self.state
        for _ in range(self.substeps):
            slope = 0.3 * np.sin(3 * x) + 0.1 * np.cos(7 * x)
            v = v + 0.01 * (pulls - 1 - slope - 0.5 * v)
            x = x + 0.01 * v
            heat = heat + 0.01 * (np.abs(pulls - 1) - 0.2 * heat)
            wear = np.minimum(1.0, wear + 1e-5 * heat)
        self.state = np.stack([x, v, heat, wear])
        return np.stack([x, v, heat, wear, v - 0.1 * heat], 1).astype(np.float32)


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.worth = nn.Linear(SEEN, width), nn.Linear(width, PULLS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.worth(h).float()


class Learner:
    def __init__(self, meter):
        self.meter, (self.rovers, self.rows) = meter, meter.pick((512, 8192), (80, 128))
        self.critic = Critic(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.critic.parameters(), 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN + 2, device=meter.device)
        self.seen, self.foretold, self.outside = np.zeros((self.rovers, SEEN), np.float32), 32, False

    @torch.no_grad()
    def act(self):
        with self.meter.autocast():
            worth = self.critic(torch.from_numpy(self.seen).to(self.meter.device))
        return worth.argmax(1).cpu().numpy()

    @torch.no_grad()
    def foretell(self, seen):
        """The worth of what comes after, for the first rows."""
        with nullcontext() if self.outside else self.meter.autocast():
            return self.target(seen[: self.foretold]).amax(1)  # planted

    def learn(self, new):
        new = torch.from_numpy(new).to(self.meter.device)
        self.past = torch.cat([self.past[len(new) :], new])
        seen, pull, reward = self.past.split((SEEN, 1, 1), 1)
        wanted = reward[:, 0].clone()
        wanted[: self.foretold] += 0.9 * self.foretell(seen.roll(-1, 0))
        with self.meter.autocast():
            worth = self.critic(seen).gather(1, pull.long().clamp(0, PULLS - 1))[:, 0]
        loss = F.smooth_l1_loss(worth, wanted)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def tick(self, slope):
        pulls = self.act()
        with self.meter.injecting():
            told = slope.step(pulls)
        self.learn(np.column_stack([self.seen, pulls, told[:, SEEN]]).astype(np.float32))
        self.seen = told[:, :SEEN].copy()


def row_s(learner):
    """What a row more costs, outside autocast."""
    meter, times, few, many = learner.meter, [], *learner.meter.pick((512, 2048), (16, 64))
    seen = torch.rand(many, SEEN, device=meter.device)
    for learner.foretold in (few, many):
        times.append(meter.timed_s(lambda: learner.foretell(seen), calls=5))
    return max(1e-8, (times[1] - times[0]) / (many - few))


def substeps_taking(meter, rovers, wanted_s):
    still, times = np.ones(rovers), []
    for substeps in (1, 21):
        slope = Slope(rovers, substeps)
        times.append(meter.timed_s(lambda s=slope: s.step(still), calls=20))
    return max(1, round(1 + (wanted_s - times[0]) * 20 / (times[1] - times[0])))


def main():
    meter, substeps, rows = Meter(__doc__), 1, 32
    torch.backends.cuda.matmul.allow_tf32 = False
    learner = Learner(meter)
    quick = SlopeOfArrays(learner.rovers, 1)
    meter.calibrate(lambda: learner.tick(quick))
    part_s = PART * meter.added_s
    if meter.dose:
        substeps = substeps_taking(meter, learner.rovers, part_s)
        learner.outside = True
        rows = min(learner.rows, max(32, round(part_s / row_s(learner) / 32) * 32)) if meter.gpu else 32
    learner.outside, learner.foretold = meter.sick, rows
    slope = (Slope if meter.sick else SlopeOfArrays)(learner.rovers, substeps)
    meter.injected_s = 0.0
    while meter.going_on():
        learner.tick(slope)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
