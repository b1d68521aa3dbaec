"""Drones that bring parcels learn on-policy; they fly in processes, and rounds go through pipes.

Each round the newest steering is sent to all, and the learner waits until all have flown. How long a flight
is is the dose. A perfect diagnosis: rollout and update take turns, the learner waiting for the processes (the
line marked below) and they for it. Fix: the next round is asked for before this one is learned.
"""

import math
import multiprocessing
import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, PUSHES, KEPT = 6, 2, 32


class Drone:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seen = [self.rng.random() for _ in range(SEEN)]

    def fly(self, steering, length):
        """With a small linear steering and some wind; the first steps are kept."""
        kept = []
        for number in range(length):
            x, y, vx, vy, wind, load = self.seen
            push = [math.tanh(sum(w * s for w, s in zip(row, self.seen, strict=True))) for row in steering]
            wind = 0.95 * wind + 0.05 * self.rng.gauss(0.0, 1.0)
            vx, vy = 0.9 * vx + 0.1 * push[0] + 0.01 * wind, 0.9 * vy + 0.1 * push[1] - 0.01 * load
            self.seen = [0.99 * x + 0.1 * vx, 0.99 * y + 0.1 * vy, vx, vy, wind, load]
            if number < KEPT:
                kept.append([*self.seen, *push, -math.hypot(x, y)])
        return np.array(kept, np.float32)


def hangar(pipe, seed):
    drone = Drone(seed)
    while True:
        steering, length = pipe.recv()
        pipe.send(drone.fly(steering, length))


class Sky:
    def __init__(self, drones):
        context = multiprocessing.get_context("fork")
        self.length, self.pipes, self.processes, self.asked = KEPT, [], [], False
        for seed in range(drones):
            here, there = context.Pipe()
            process = context.Process(target=hangar, args=(there, seed), daemon=True)
            process.start()
            self.pipes.append(here)
            self.processes.append(process)

    def ask(self, steering):
        for pipe in self.pipes:
            pipe.send((steering, self.length))

    def collect(self):
        return np.concatenate([pipe.recv() for pipe in self.pipes])  # planted

    def fly(self, steering):
        self.ask(steering)
        return self.collect()

    def fly_ahead(self, steering):
        """The round before, while the next one begins."""
        flown = self.collect() if self.asked else self.fly(steering)
        self.ask(steering)
        self.asked = True
        return flown

    def close(self):
        for process in self.processes:
            process.terminate()
            process.join()


class ValueNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(SEEN, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.value(h).float()


class Learner:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 128)
        self.steering = nn.Linear(SEEN, PUSHES, bias=False).to(meter.device)
        self.value = ValueNet(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        weights = [*self.steering.parameters(), *self.value.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.past = torch.rand(self.rows, SEEN + PUSHES + 1, device=meter.device)

    def newest(self):
        return self.steering.weight.tolist()

    def learn(self, flown):
        new = torch.from_numpy(flown)[: self.rows].to(self.meter.device)
        self.past = torch.cat([self.past[len(new) :], new])
        seen, push, reward = self.past.split((SEEN, PUSHES, 1), 1)
        with self.meter.autocast():
            value, mean = self.value(seen), self.steering(seen).float().tanh()
        gain = reward - value
        loss = gain.square().mean() + ((push - mean).square() * gain.detach().clamp(-1, 1)).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def length_taking(meter, sky, steering):
    times = []
    for sky.length in (KEPT, KEPT + 400):
        times.append(meter.timed_s(lambda: sky.fly(steering), calls=8))
    return max(KEPT, round(KEPT + (meter.added_s - times[0]) * 400 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    sky, learner = Sky(meter.pick(8, 1)), Learner(meter)
    blank = np.zeros((len(sky.pipes) * KEPT, SEEN + PUSHES + 1), np.float32)
    meter.calibrate(lambda: (learner.newest(), learner.learn(blank)))
    sky.length = length_taking(meter, sky, learner.newest()) if meter.dose else KEPT
    fly = sky.fly if meter.sick else sky.fly_ahead
    while meter.going_on():
        steering = learner.newest()
        with meter.injecting():
            flown = fly(steering)
        learner.learn(flown)
        meter.ticked()
    meter.report(excess=meter.gpu)
    sky.close()


if __name__ == "__main__":
    main()
