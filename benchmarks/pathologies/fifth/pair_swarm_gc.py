"""Two faults: a process that flies a swarm and the GPU wait for each other, and garbage is collected by hand.

Each takes three quarters of a dose. A perfect diagnosis names both: the flight and the update take turns
(first marked line), and the pauses of the garbage collector (second). Fix: the next flight is begun before
the update; no collection.
"""

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SENSED, ROTORS, DRONES = 0.75, 9, 4, 8


def fly(steps, weights, seed):
    """A flight of the swarm, with the policy's weights as they were sent."""
    rng, state = np.random.default_rng(seed), np.zeros((DRONES, SENSED))
    pull = np.linspace(-0.3, 0.3, ROTORS * SENSED).reshape(ROTORS, SENSED)
    states, rewards = np.zeros((steps, DRONES, SENSED), np.float32), np.zeros((steps, DRONES), np.float32)
    for n in range(steps):
        rotors = np.tanh(state @ weights + 0.1 * rng.standard_normal((DRONES, ROTORS)))
        state = np.tanh(0.95 * state + rotors @ pull + 0.05 * (state.mean(0) - state))
        states[n], rewards[n] = state, -np.square(state).sum(1)
    return states.reshape(-1, SENSED), rewards.reshape(-1)


class World(nn.Module):
    """A large critic; the policy is one small layer."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(SENSED, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.policy = nn.Linear(SENSED, ROTORS, bias=False)

    def forward(self, state):
        h = self.enter(state)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.value(h)[:, 0].float()


class Training:
    def __init__(self, meter, executor):
        self.meter, self.executor, self.flown, rows = meter, executor, 0, meter.pick(8192, 256)
        self.world = World(*meter.pick((4096, 5), (208, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.world.parameters(), 1e-5, fused=meter.gpu)
        self.states = torch.randn(rows, SENSED, device=meter.device)
        self.rewards = torch.zeros(rows, device=meter.device)

    def launch(self, steps):
        self.flown += 1
        weights = self.world.policy.weight.detach().cpu().numpy().T
        return self.executor.submit(fly, steps, weights, self.flown)

    def land(self, flight):
        states, rewards = flight.result()  # planted
        for kept, new in ((self.states, states), (self.rewards, rewards)):
            new = torch.from_numpy(new[: len(kept)])
            kept[: len(new)] = new.to(self.meter.device)

    def update(self):
        with self.meter.autocast():
            value = self.world(self.states)
        rotors = self.world.policy(self.states).tanh()
        loss = F.mse_loss(value, self.rewards) + 0.01 * rotors.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Logbook:
    """What happened in each flight, kept as objects."""

    def __init__(self):
        self.flights = []

    def grow(self, count):
        self.flights = [{"number": n, "crew": [n, n + 1], "notes": {"wind": n % 9}} for n in range(count)]

    def tidy(self):
        gc.collect()  # planted


def steps_taking(meter, training, wanted_s):
    short_s = meter.timed_s(lambda: training.launch(1).result(), calls=10)
    long_s = meter.timed_s(lambda: training.launch(201).result(), calls=3)
    return max(2, round((wanted_s - short_s) * 200 / max(1e-6, long_s - short_s)))


def main():
    meter = Meter(__doc__)
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as executor:
        executor.submit(fly, 1, np.zeros((SENSED, ROTORS)), 0).result()
        training, log, tidy_every = Training(meter, executor), Logbook(), 0
        meter.calibrate(training.update)
        part_s = PART * meter.added_s
        steps = steps_taking(meter, training, part_s) if meter.dose else 8
        if meter.sick:
            log.grow(20_000)
            tidy_every = max(1, round(meter.timed_s(log.tidy) / part_s))
        flight = None if meter.sick else training.launch(steps)
        while meter.going_on():
            if meter.sick:
                training.land(training.launch(steps))
            else:
                training.land(flight)
                flight = training.launch(steps)
            if tidy_every and meter.ticks % tidy_every == 0:
                log.tidy()
            training.update()
            meter.ticked()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
