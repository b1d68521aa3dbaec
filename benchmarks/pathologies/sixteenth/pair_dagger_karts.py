"""Two faults: karts that imitate an expert are moved by the training thread; too many evaluations.

Each takes three quarters of a dose. A perfect diagnosis names both: environments stepped by the training
thread (first marked line), and evaluations (second). Fix: arrays for all karts, and an evaluation every
few thousand rounds.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

PART, KARTS, STEPS, SEEN, ACT, LEARNT, RARELY = 0.75, 6, 6, 5, 2, 320, 4000


class Kart:
    """A wheel that slips, on a round track."""

    def __init__(self, seed, parts):
        self.x, self.y, self.heading, self.speed, self.slip = 1.0 + 0.02 * seed, 0.0, math.pi / 2, 0.3, 0.0
        self.parts = parts

    def observe(self):
        out = math.hypot(self.x, self.y) - 1
        along = math.atan2(self.y, self.x) + math.pi / 2
        return [out, math.sin(self.heading - along), math.cos(self.heading - along), self.speed, self.slip]

    def roll(self, steer, gas, dt):
        grip = 1 / (1 + self.speed * self.speed * abs(steer))
        self.slip += dt * (steer * self.speed - 2 * grip * self.slip)
        self.heading += dt * (steer * grip + 0.3 * self.slip)
        self.speed = max(0.0, self.speed + dt * (gas - 0.5 * self.speed))
        self.x += dt * self.speed * math.cos(self.heading)
        self.y += dt * self.speed * math.sin(self.heading)

    def step(self, action):
        steer, gas = action
        for _ in range(self.parts):
            self.roll(steer, gas, 0.05 / self.parts)
        if math.hypot(self.x, self.y) > 3:
            self.x, self.y, self.heading = 1.0, 0.0, math.pi / 2
        return self.observe()


class KartLoop:
    def __init__(self, parts):
        self.karts = [Kart(seed, parts) for seed in range(KARTS)]

    def observe(self):
        return np.array([kart.observe() for kart in self.karts], np.float32)

    def step(self, actions):
        pairs = zip(self.karts, actions.tolist(), strict=True)
        seen = [kart.step(action) for kart, action in pairs]  # planted
        return np.array(seen, np.float32)


class KartArrays:
    def __init__(self):
        self.place = np.stack([1 + 0.02 * np.arange(KARTS), np.zeros(KARTS)], 1)
        self.heading, self.speed, self.slip = np.full(KARTS, np.pi / 2), np.full(KARTS, 0.3), np.zeros(KARTS)

    def observe(self):
        out = np.linalg.norm(self.place, axis=1) - 1
        off = self.heading - np.arctan2(self.place[:, 1], self.place[:, 0]) - np.pi / 2
        return np.stack([out, np.sin(off), np.cos(off), self.speed, self.slip], 1).astype(np.float32)

    def step(self, actions):
        steer, gas = actions.T
        grip = 1 / (1 + self.speed**2 * np.abs(steer))
        self.slip = self.slip + 0.05 * (steer * self.speed - 2 * grip * self.slip)
        self.heading = self.heading + 0.05 * (steer * grip + 0.3 * self.slip)
        self.speed = np.maximum(0, self.speed + 0.05 * (gas - 0.5 * self.speed))
        way = np.stack([np.cos(self.heading), np.sin(self.heading)], 1)
        self.place = np.clip(self.place + 0.05 * self.speed[:, None] * way, -3, 3)
        return self.observe()


def expert(seen):
    out, off = seen[:, 0], seen[:, 1]
    return np.stack([np.clip(-2 * off + 1.5 * out, -1, 1), 0.8 - 0.4 * np.abs(off)], 1).astype(np.float32)


class Dagger:
    """The learner drives, the expert says what it would have done, and all of it is kept."""

    def __init__(self, meter, size=288):
        self.meter = meter
        self.policy = nn.Sequential(
            nn.Linear(SEEN, size), nn.Mish(), nn.Linear(size, size), nn.Mish(), nn.Linear(size, ACT)
        ).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=5e-4)
        self.seen, self.rng = np.zeros((4000, SEEN), np.float32), np.random.default_rng(0)
        self.wanted, self.head = np.zeros((4000, ACT), np.float32), 0
        held_out = self.rng.normal(0, 0.5, (8, LEARNT, SEEN)).astype(np.float32)
        self.held_out = [(torch.from_numpy(seen), torch.from_numpy(expert(seen))) for seen in held_out]

    @torch.no_grad()
    def drive(self, seen):
        return self.policy(torch.from_numpy(seen).to(self.meter.device)).cpu().numpy()

    def keep(self, seen):
        rows = (self.head + np.arange(KARTS)) % len(self.seen)
        self.seen[rows], self.wanted[rows] = seen, expert(seen)
        self.head = int(rows[-1] + 1)

    def learn(self):
        rows = self.rng.integers(0, len(self.seen), LEARNT)
        seen, wanted = (
            torch.from_numpy(part[rows]).to(self.meter.device) for part in (self.seen, self.wanted)
        )
        loss = F.smooth_l1_loss(self.policy(seen), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def round(self, karts):
        seen = karts.observe()
        for _ in range(STEPS):
            actions = self.drive(seen)
            with self.meter.injecting():
                seen = karts.step(actions)
            self.keep(seen)
        for _ in range(2):
            self.learn()

    @torch.no_grad()
    def evaluate(self):
        missed = []
        for seen, wanted in self.held_out:
            guess = self.policy(seen.to(self.meter.device)).cpu()
            missed.append(float((guess - wanted).abs().mean()))
        return sum(missed) / len(missed)


def main():
    meter, karts = Meter(__doc__), KartArrays()
    dagger = Dagger(meter)
    meter.calibrate(lambda: dagger.round(karts))
    part_s, eval_every = PART * meter.added_s, RARELY
    if meter.dose:
        actions = np.zeros((KARTS, ACT), np.float32)

        def moving(parts):
            tried = KartLoop(parts)
            return lambda: tried.step(actions)

        parts = max(1, amount_taking(meter, moving, 1, 31, part_s / STEPS))
        if meter.sick:
            karts = KartLoop(parts)
            eval_every = max(1, round(meter.timed_s(dagger.evaluate, calls=5) / part_s))
    meter.injected_s = 0.0
    while meter.going_on():
        dagger.round(karts)
        meter.ticked()
        if meter.ticks % eval_every == 0:
            with meter.injecting():
                dagger.evaluate()  # planted
    meter.report()


if __name__ == "__main__":
    main()
