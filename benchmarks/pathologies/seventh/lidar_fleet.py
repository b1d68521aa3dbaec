"""Robots with laser scanners in a hall of pillars; an own vector environment goes from robot to robot.

How many beams a scanner has is the dose. A perfect diagnosis: the environments are stepped on the training
thread while the GPU waits (the step marked below). Fix: all beams of all robots at once.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ROBOTS, PILLARS, SEEN, TURNS = 8, 6, 16, 3


class Robot:
    def __init__(self, number, pillars, beams):
        self.x, self.y, self.heading = 0.1 * number, -0.1 * number, 0.4 * number
        self.pillars, self.beams = pillars, beams

    def drive(self, turn):
        self.heading += 0.2 * (turn - 1)
        self.x = (self.x + 0.05 * math.cos(self.heading)) % 4.0
        self.y = (self.y + 0.05 * math.sin(self.heading)) % 4.0

    def beam(self, angle):
        """How far it is to the first pillar."""
        dx, dy, near = math.cos(angle), math.sin(angle), 4.0
        for px, py in self.pillars:
            along = (px - self.x) * dx + (py - self.y) * dy
            aside = abs((px - self.x) * dy - (py - self.y) * dx)
            if along > 0 and aside < 0.2:
                near = min(near, along - math.sqrt(0.04 - aside * aside))
        return near

    def scan(self):
        step = math.tau / self.beams
        return [self.beam(self.heading + n * step) for n in range(self.beams)]


def sectors(scans):
    """The nearest in each of the sectors that the net sees."""
    parts = np.array_split(np.asarray(scans, np.float32), SEEN, axis=1)
    return np.stack([part.min(1) for part in parts], 1)


class Fleet:
    def __init__(self, beams):
        self.pillars = np.random.default_rng(0).uniform(0, 4, (PILLARS, 2))
        self.robots = [Robot(n, self.pillars.tolist(), beams) for n in range(ROBOTS)]

    def step(self, turns):
        scans = []
        for robot, turn in zip(self.robots, turns, strict=True):
            robot.drive(turn)
            scans.append(robot.scan())
        seen = sectors(scans)
        return seen, seen.min(1)


class QuickFleet(Fleet):
    def step(self, turns):
        for robot, turn in zip(self.robots, turns, strict=True):
            robot.drive(turn)
        place = np.array([(robot.x, robot.y) for robot in self.robots])
        beams = self.robots[0].beams
        angle = np.array([robot.heading for robot in self.robots])[:, None] + np.linspace(
            0, math.tau, beams, endpoint=False
        )
        way = (self.pillars[None] - place[:, None])[:, None]
        dx, dy = np.cos(angle)[..., None], np.sin(angle)[..., None]
        along, aside = way[..., 0] * dx + way[..., 1] * dy, way[..., 0] * dy - way[..., 1] * dx
        hit = (along > 0) & (np.abs(aside) < 0.2)
        far = np.where(hit, along - np.sqrt(np.maximum(0.04 - aside**2, 0)), 4.0).min(-1)
        seen = sectors(np.minimum(far, 4.0))
        return seen, seen.min(1)


class Driver(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.head = nn.Linear(SEEN, width), nn.Linear(width, TURNS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.head(h).float()


class Learner:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.driver = Driver(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.driver.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.rand(self.rows, SEEN, device=meter.device)
        self.turns = torch.zeros(self.rows, dtype=torch.long, device=meter.device)
        self.rewards = torch.zeros(self.rows, device=meter.device)
        self.at = 0

    @torch.inference_mode()
    def turn(self, seen):
        with self.meter.autocast():
            scores = self.driver(seen)
        return (scores - torch.rand_like(scores).log().neg().log()).argmax(1)

    def keep(self, seen, turns, rewards):
        rows = slice(self.at, self.at + ROBOTS)
        self.seen[rows], self.turns[rows] = seen, turns
        self.rewards[rows] = torch.from_numpy(rewards).to(self.meter.device)
        self.at = (self.at + ROBOTS) % self.rows

    def learn(self):
        with self.meter.autocast():
            scores = self.driver(self.seen)
        likely = F.cross_entropy(scores, self.turns, reduction="none")
        loss = (likely * (self.rewards - self.rewards.mean())).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def beams_for(meter, wanted_s):
    times = []
    for beams in (SEEN, 5 * SEEN):
        fleet = Fleet(beams)
        times.append(meter.timed_s(lambda f=fleet: f.step([1] * ROBOTS), calls=6))
    return max(SEEN, round(SEEN + (wanted_s - times[0]) * 4 * SEEN / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    learner, calm = Learner(meter), QuickFleet(SEEN)

    def tick(fleet, seen):
        seen = torch.from_numpy(seen).to(meter.device)
        turns = learner.turn(seen)
        with meter.injecting():
            after, rewards = fleet.step(turns.tolist())  # planted
        learner.keep(seen, turns, rewards)
        learner.learn()
        return after

    seen = np.ones((ROBOTS, SEEN), np.float32)
    meter.calibrate(lambda: tick(calm, seen))
    meter.injected_s = 0.0
    beams = beams_for(meter, meter.added_s) if meter.dose else SEEN
    fleet = Fleet(beams) if meter.sick else QuickFleet(beams)
    while meter.going_on():
        seen = tick(fleet, seen)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
