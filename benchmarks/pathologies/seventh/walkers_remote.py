"""Walkers learn by a policy gradient; they live in other processes, asked by `remote` and `get`.

How long they walk is the dose. A perfect diagnosis: while they walk, the GPU waits, and while it learns, they
wait (the line marked below). Fix: the next walks are asked for before the learning.
"""

import math
import multiprocessing

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, MOVES, KEPT = 6, 2, 16


class Walker:
    """Lives in a process of its own."""

    def __init__(self, number):
        self.state, self.number = [0.1 * number] * SEEN, number

    def walk(self, weights, steps):
        rows = weights.tolist()
        kept = np.zeros((KEPT, SEEN + MOVES), np.float32)
        for step in range(steps):
            moves = [math.tanh(sum(w * s for w, s in zip(row, self.state, strict=True))) for row in rows]
            push = moves[0] - 0.5 * moves[1] + 0.1 * math.sin(step + self.number)
            self.state = [0.95 * s + 0.05 * push for s in [*self.state[1:], -self.state[0]]]
            kept[step % KEPT] = [*self.state, *moves]
        return kept


def live(kind, number, pipe):
    actor = kind(number)
    while True:
        name, args = pipe.recv()
        if name is None:
            return
        pipe.send(getattr(actor, name)(*args))


class Future:
    def __init__(self, pipe):
        self.pipe = pipe


def get(futures):
    return [future.pipe.recv() for future in futures]  # planted


class Remote:
    """A handle of an actor."""

    def __init__(self, kind, number):
        context = multiprocessing.get_context("fork")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=live, args=(kind, number, there), daemon=True)
        self.process.start()

    def remote(self, name, *args):
        self.pipe.send((name, args))
        return Future(self.pipe)

    def kill(self):
        self.process.terminate()
        self.process.join()


class Gait(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.policy = nn.Linear(SEEN, MOVES, bias=False)
        self.enter, self.value = nn.Linear(SEEN, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.policy(seen).float(), self.value(h)[:, 0].float()


class Gradient:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.net = Gait(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.walked = torch.rand(rows, SEEN + MOVES, device=meter.device)

    def weights(self):
        return self.net.policy.weight.detach().cpu().numpy()

    def learn(self, walks):
        fresh = torch.from_numpy(np.concatenate(walks)).to(self.meter.device)
        self.walked = torch.cat([self.walked[len(fresh) :], fresh])
        seen, moves = self.walked.split((SEEN, MOVES), 1)
        with self.meter.autocast():
            mean, value = self.net(seen)
        reward = seen[:, 0]
        likely = (mean.tanh() - moves).square().sum(1)
        loss = F.mse_loss(value, reward) + (likely * (reward - value.detach())).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.meter.sync()


def steps_taking(meter, walkers, weights, wanted_s):
    times = []
    for steps in (1, 101):

        def ask(steps=steps):
            get([walker.remote("walk", weights, steps) for walker in walkers])

        times.append(meter.timed_s(ask, calls=10))
    return max(1, round((wanted_s - times[0]) * 100 / (times[1] - times[0])))


def main():
    meter = Meter(__doc__)
    walkers = [Remote(Walker, n) for n in range(meter.pick(4, 1))]
    gradient = Gradient(meter)
    blank = [np.zeros((KEPT, SEEN + MOVES), np.float32) for _ in walkers]
    meter.calibrate(lambda: (gradient.weights(), gradient.learn(blank)))
    steps = steps_taking(meter, walkers, gradient.weights(), meter.added_s) if meter.dose else 1

    def walking():
        weights = gradient.weights()
        return [walker.remote("walk", weights, steps) for walker in walkers]

    coming = None if meter.sick else walking()
    while meter.going_on():
        with meter.injecting():
            walks = get(coming or walking())
        if not meter.sick:
            coming = walking()
        gradient.learn(walks)
        meter.ticked()
    meter.report(excess=meter.gpu)
    for walker in walkers:
        walker.kill()


if __name__ == "__main__":
    main()
