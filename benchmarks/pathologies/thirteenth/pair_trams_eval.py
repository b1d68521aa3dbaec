"""Two faults: drivers of trams in processes and the learner wait for each other, and tests are too many.

Each takes three quarters of a dose. A perfect diagnosis names both: rollout and update take turns, the
learner waiting at a queue (first marked line), and evaluations (second). Fix: the next rides are asked for
before these are learned, and a test every few thousand steps.
"""

import math
import multiprocessing
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, KEPT, PART, RARELY = 5, 32, 0.75, 5000


def ride(pull, length, state):
    """With a linear driver; the first moments are kept."""
    place, speed, late, load = state
    kept = []
    for number in range(length):
        force = math.tanh(pull[0] * speed + pull[1] * late + pull[2])
        slope = 0.1 * math.sin(3 * place)
        speed = max(0.0, speed + 0.02 * (force - slope - 0.3 * speed))
        place, late = place + 0.02 * speed, 0.99 * late + 0.01 * (0.5 - speed)
        load = 0.99 * load + 0.01 * math.cos(place)
        if number < KEPT:
            kept.append((place % 1, speed, late, load, force, -abs(late)))
    return np.array(kept, np.float32), (place, speed, late, load)


def driver(asked, ridden):
    state = (0.0, 0.0, 0.0, 0.5)
    while (order := asked.get()) is not None:
        kept, state = ride(*order, state)
        ridden.put(kept)


class Depot:
    def __init__(self, drivers):
        context = multiprocessing.get_context("fork")
        self.asked, self.ridden = context.SimpleQueue(), context.SimpleQueue()
        self.processes = [
            context.Process(target=driver, args=(self.asked, self.ridden), daemon=True)
            for _ in range(drivers)
        ]
        self.length, self.under_way = KEPT, False
        for process in self.processes:
            process.start()

    def ask(self, pull):
        for _ in self.processes:
            self.asked.put((pull, self.length))

    def collect(self):
        return np.concatenate([self.ridden.get() for _ in self.processes])  # planted

    def in_turn(self, pull):
        self.ask(pull)
        return self.collect()

    def ahead(self, pull):
        rides = self.collect() if self.under_way else self.in_turn(pull)
        self.ask(pull)
        self.under_way = True
        return rides

    def close(self):
        for process in self.processes:
            process.terminate()
            process.join()


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.worth = nn.Linear(SEEN, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.worth(h).float()[:, 0]


class Learner:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.critic = Critic(*meter.pick((4096, 5), (288, 4))).to(meter.device)
        self.past = torch.rand(self.rows, SEEN + 1, device=meter.device)
        self.pull = nn.Parameter(torch.tensor([0.1, -1.0, 0.3], device=meter.device))
        weights = [*self.critic.parameters(), self.pull]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.tests, self.missed = meter.pick(16, 5), []

    def newest(self):
        return self.pull.tolist()

    def learn(self, rides):
        new = torch.from_numpy(rides)[: self.rows].to(self.meter.device)
        self.past = torch.cat([self.past[len(new) :], new])
        with self.meter.autocast():
            worth = self.critic(self.past[:, :SEEN])
        reward, force = self.past[:, SEEN], self.past[:, 4]
        pull = (self.past[:, 1] * self.pull[0] + self.past[:, 2] * self.pull[1] + self.pull[2]).tanh()
        gain = (reward - worth.detach()).clamp(-1, 1)
        loss = F.smooth_l1_loss(worth, reward) + ((force - pull).square() * gain).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.critic.eval()
        missed = []
        for shift in range(self.tests):
            with self.meter.autocast():
                worth = self.critic(self.past[:, :SEEN].roll(shift, 0))
            missed.append((worth - self.past[:, SEEN]).abs().mean())
        self.missed.append(torch.stack(missed).mean().item())
        self.critic.train()


def length_taking(meter, depot, pull, wanted_s):
    depot.length = KEPT
    few_s = meter.timed_s(partial(depot.in_turn, pull), calls=10)
    depot.length = KEPT + 1000
    many_s = meter.timed_s(partial(depot.in_turn, pull), calls=10)
    return max(KEPT, round(KEPT + (wanted_s - few_s) * 1000 / (many_s - few_s)))


def main():
    meter, every = Meter(__doc__), RARELY
    depot, learner = Depot(meter.pick(8, 1)), Learner(meter)
    blank = np.zeros((len(depot.processes) * KEPT, SEEN + 1), np.float32)
    meter.calibrate(lambda: (learner.newest(), learner.learn(blank)))
    part_s = PART * meter.added_s
    depot.length = length_taking(meter, depot, learner.newest(), part_s) if meter.dose else KEPT
    if meter.sick:
        every = max(1, round(meter.timed_s(learner.evaluate) / part_s))
    next_rides = depot.in_turn if meter.sick else depot.ahead
    while meter.going_on():
        pull = learner.newest()
        with meter.injecting():
            rides = next_rides(pull)
        learner.learn(rides)
        meter.ticked()
        if meter.ticks % every == 0:
            with meter.injecting():
                learner.evaluate()  # planted
    meter.report(excess=meter.gpu)
    depot.close()


if __name__ == "__main__":
    main()
