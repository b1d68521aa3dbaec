"""Carts in warehouses learn where to drive; a warehouse is a class of the project's own, and there are many.

They are simulated by the training thread, one after another, in small steps of time. How small is the
dose. A perfect diagnosis: environments stepped by the training thread (any line marked below). Fix: all
of them as arrays, in one large step of time.
"""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

HALLS, SEEN, DRIVES, LEARNT = 12, 6, 5, 256
TURN = (-0.6, -0.2, 0.0, 0.2, 0.6)


class Warehouse:
    """One cart, a shelf to reach, and a floor that slips."""

    def __init__(self, seed, parts):
        self.rng, self.parts = random.Random(seed), parts
        self.restart()

    def restart(self):
        self.x, self.y, self.angle, self.speed = 0.0, 0.0, self.rng.uniform(-3, 3), 0.0
        self.goal = self.rng.uniform(-1, 1), self.rng.uniform(-1, 1)
        return self.look()

    def look(self):
        return [self.x, self.y, math.cos(self.angle), math.sin(self.angle), *self.goal]

    def advance(self, drive):
        """Seen after a tenth of a second, reward, and whether the shelf was reached."""
        dt = 0.1 / self.parts
        for _ in range(self.parts):
            self.angle += dt * TURN[drive] * 4
            slip = 1 - 0.1 * math.sin(3 * self.x) * math.cos(2 * self.y)  # planted
            self.speed += dt * (slip - self.speed)
            self.x = max(-2.0, min(2.0, self.x + dt * self.speed * math.cos(self.angle)))  # planted
            self.y = max(-2.0, min(2.0, self.y + dt * self.speed * math.sin(self.angle)))  # planted
        far = math.dist((self.x, self.y), self.goal)
        return self.restart() if far < 0.1 else self.look(), -far, far < 0.1


class Halls:
    def __init__(self, parts):
        self.halls = [Warehouse(seed, parts) for seed in range(HALLS)]
        self.seen = [hall.look() for hall in self.halls]

    def advance(self, drives):
        told = [
            hall.advance(drive) for hall, drive in zip(self.halls, drives.tolist(), strict=True)
        ]  # planted
        self.seen, rewards, _ = map(list, zip(*told, strict=True))
        return torch.tensor(self.seen), torch.tensor(rewards)


class ArrayHalls:
    def __init__(self, parts):
        self.parts, self.rng = parts, np.random.default_rng(0)
        self.x, self.y, self.speed = np.zeros((3, HALLS))
        self.angle, self.goal = self.rng.uniform(-3, 3, HALLS), self.rng.uniform(-1, 1, (2, HALLS))

    def advance(self, drives):
        self.angle += 0.4 * np.array(TURN)[drives.numpy()]
        self.speed += 0.1 * (1 - 0.1 * np.sin(3 * self.x) * np.cos(2 * self.y) - self.speed)
        self.x = (self.x + 0.1 * self.speed * np.cos(self.angle)).clip(-2, 2)
        self.y = (self.y + 0.1 * self.speed * np.sin(self.angle)).clip(-2, 2)
        far = np.hypot(self.x - self.goal[0], self.y - self.goal[1])
        self.x, self.y = np.where(far < 0.1, 0, self.x), np.where(far < 0.1, 0, self.y)
        seen = [self.x, self.y, np.cos(self.angle), np.sin(self.angle), *self.goal]
        return torch.from_numpy(np.stack(seen, 1)).float(), torch.from_numpy(-far).float()


class ActorCritic(nn.Module):
    def __init__(self, hidden=480):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(SEEN, hidden), nn.Mish(), nn.Linear(hidden, hidden), nn.Mish())
        self.drive, self.value = nn.Linear(hidden, DRIVES), nn.Linear(hidden, 1)

    def forward(self, seen):
        h = self.trunk(seen)
        return self.drive(h), self.value(h)[:, 0]


class Agent:
    def __init__(self, device):
        self.net, self.device = ActorCritic().to(device), device
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
        self.memory = [torch.zeros(0, SEEN), torch.zeros(0, dtype=torch.long), torch.zeros(0)]

    @torch.no_grad()
    def act(self, seen):
        logits, _ = self.net(seen.to(self.device))
        return torch.multinomial(logits.softmax(1), 1)[:, 0].cpu()

    def remember(self, *rows):
        self.memory = [torch.cat([old, new])[-LEARNT:] for old, new in zip(self.memory, rows, strict=True)]

    def learn(self):
        seen, drives, rewards = (part.to(self.device) for part in self.memory)
        logits, values = self.net(seen)
        gain = rewards - values
        log_p = logits.log_softmax(1)
        chosen = log_p.gather(1, drives[:, None])[:, 0]
        loss = F.huber_loss(values, rewards) - (chosen * gain.detach()).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    agent, quick = Agent(meter.device), ArrayHalls(1)
    seen, _ = quick.advance(torch.zeros(HALLS, dtype=torch.long))
    agent.remember(torch.rand(LEARNT, SEEN), torch.randint(DRIVES, (LEARNT,)), torch.rand(LEARNT))

    def play(halls, seen):
        drives = agent.act(seen)
        with meter.injecting():
            after, rewards = halls.advance(drives)
        agent.remember(seen, drives, rewards)
        agent.learn()
        return after

    meter.calibrate(lambda: play(quick, seen))
    parts = 1
    if meter.dose:
        drives = torch.zeros(HALLS, dtype=torch.long)

        def driving(parts):
            halls = Halls(parts)
            return lambda: halls.advance(drives)

        parts = amount_taking(meter, driving, 1, 41, meter.added_s)
    meter.injected_s, halls = 0.0, Halls(parts) if meter.sick else ArrayHalls(parts)
    while meter.going_on():
        seen = play(halls, seen)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
