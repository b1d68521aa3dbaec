"""Two faults: gondolas are simulated by the training thread, and a compiled layer counts the lessons.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped one after another
while the GPU waits (first marked line), and torch compiling again and again, as the lesson is a number of
Python in a module (second). The back end is `aot_eager`, which needs no compiler, and limits on recompiling
are lifted. Fix: all gondolas at once, as arrays, and the lesson as a tensor.
"""

import math

import numpy as np
import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

SEEN, OARS, SMALL, PART, RARELY = 4, 3, 32, 0.75, 5000


class GondolaEnv:
    def __init__(self, number, substeps):
        self.state, self.substeps = [0.1 * number, 0.0, 0.0, 0.0], substeps

    def step(self, oar):
        along, across, course, speed = self.state
        for _ in range(self.substeps):
            course += 0.01 * (oar - 1 - 0.5 * course)
            speed += 0.01 * (0.3 - speed * abs(speed))
            along += 0.01 * speed * math.cos(course)
            across += 0.01 * (speed * math.sin(course) + 0.1 * math.sin(along))
        self.state = [along, across, course, speed]
        return self.state, -abs(across)


class Canal:
    def __init__(self, gondolas, substeps):
        self.envs = [GondolaEnv(number, substeps) for number in range(gondolas)]

    def step(self, oars):
        told = [env.step(oar) for env, oar in zip(self.envs, oars.tolist(), strict=True)]  # planted
        return np.array([[*seen, reward] for seen, reward in told], np.float32)


class CanalOfArrays:
    def __init__(self, gondolas, substeps):
        self.state, self.substeps = np.zeros((4, gondolas)), substeps
        self.state[0] = 0.1 * np.arange(gondolas)

    def step(self, oars):
        along, across, course, speed = self.state
        for _ in range(self.substeps):
            course = course + 0.01 * (oars - 1 - 0.5 * course)
            speed = speed + 0.01 * (0.3 - speed * np.abs(speed))
            along = along + 0.01 * speed * np.cos(course)
            across = across + 0.01 * (speed * np.sin(course) + 0.1 * np.sin(along))
        self.state = np.stack([along, across, course, speed])
        return np.stack([*self.state, -np.abs(across)], 1).astype(np.float32)


class Lesson(nn.Module):
    """Later lessons lean more on what was learned."""

    def __init__(self, number):
        super().__init__()
        self.number, self.layers = number, nn.ModuleList(nn.Linear(SMALL, SMALL) for _ in range(4))

    def forward(self, h):
        for layer in self.layers:
            h = h + torch.tanh(layer(h)) * (self.number / (self.number + 10))
        return h


class Rower(nn.Module):
    def __init__(self, lesson, width, depth):
        super().__init__()
        self.lesson = torch.compile(lesson, backend="aot_eager", dynamic=False)
        self.enter, self.into, self.oar = (
            nn.Linear(SEEN, width),
            nn.Linear(SEEN, SMALL),
            nn.Linear(SMALL, OARS),
        )
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.worth = nn.Linear(width, OARS)

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.relu(layer(h))
        leaning = self.lesson(self.into(seen[:256]).float())  # planted
        return self.worth(h).float() + self.oar(leaning).float().mean(0)


class School:
    def __init__(self, meter, first_lesson):
        self.meter, (self.gondolas, self.rows) = meter, meter.pick((512, 8192), (128, 160))
        self.lesson = Lesson(first_lesson)
        self.net = Rower(self.lesson, *meter.pick((4096, 5), (288, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN + 2, device=meter.device)
        self.seen = np.zeros((self.gondolas, SEEN), np.float32)

    @torch.no_grad()
    def row(self):
        wish = self.net.oar(self.net.into(torch.from_numpy(self.seen).to(self.meter.device)))
        return (wish + torch.rand_like(wish)).argmax(1).cpu().numpy()

    def learn(self, new):
        self.past = torch.cat([self.past[len(new) :], torch.from_numpy(new).to(self.meter.device)])
        seen, oar, reward = self.past.split((SEEN, 1, 1), 1)
        with self.meter.autocast():
            worth = self.net(seen).gather(1, oar.long().clamp(0, OARS - 1))
        loss = F.mse_loss(worth, reward)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def tick(self, canal):
        oars = self.row()
        with self.meter.injecting():
            told = canal.step(oars)
        self.learn(np.column_stack([self.seen, oars, told[:, SEEN]]).astype(np.float32))
        self.seen = told[:, :SEEN].copy()

    def next_lesson(self):
        self.lesson.number += 1


def main():
    meter, every, substeps = Meter(__doc__), RARELY, 1
    for limit in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, 50_000)
    school = School(meter, torch.ones((), device=meter.device))
    quick = CanalOfArrays(school.gondolas, 1)
    meter.calibrate(lambda: school.tick(quick))
    part_s = PART * meter.added_s
    if meter.dose:

        def stepping(substeps):
            canal, still = Canal(school.gondolas, substeps), np.ones(school.gondolas)
            return lambda: canal.step(still)

        substeps = amount_taking(meter, stepping, 1, 31, part_s)
    if meter.sick:
        school.lesson.number = 1
        new_s = meter.timed_s(lambda: (school.next_lesson(), school.tick(quick)), calls=5) - meter.healthy_s
        every = max(1, round(new_s / part_s))
    canal = (Canal if meter.sick else CanalOfArrays)(school.gondolas, substeps)
    while meter.going_on():
        school.tick(canal)
        meter.ticked()
        if meter.ticks % every == 0:
            school.next_lesson()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
