"""Two faults: each of many elevators asks the policy for its own next move, and garbage is collected by hand.

Each takes three quarters of a dose. A perfect diagnosis names both: one inference for each elevator (first
marked line), and pauses of the garbage collector, which goes over all that is alive (second). Fix: one
inference for all elevators, and no call of the collector.
"""

import gc

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SEEN, MOVES, FLOORS = 0.75, 12, 3, 40


class Elevator:
    def __init__(self, number):
        self.floor, self.load = number % FLOORS, 0.0

    def look(self):
        return [self.floor / FLOORS, self.load, *(0.1 * n for n in range(SEEN - 2))]

    def move(self, way):
        self.floor = min(FLOORS - 1, max(0, self.floor + way - 1))
        self.load = 0.9 * self.load + 0.1 * (self.floor % 2)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(SEEN, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
                                    nn.Linear(64, MOVES))  # fmt: skip

    def forward(self, seen):
        return self.layers(seen)


class Critic(nn.Module):
    """Judges the whole house."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(SEEN, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.value(h).float()[:, 0]


class House:
    """Its journal keeps every ride as a dict that can be looked up from its neighbour."""

    def __init__(self, meter):
        self.meter, self.elevators = meter, [Elevator(n) for n in range(2)]
        self.policy = Policy().to(meter.device)
        self.critic = Critic(*meter.pick((4096, 5), (192, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.critic.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.rand(meter.pick(8192, 64), SEEN, device=meter.device)
        self.journal = [
            {"floor": [n % FLOORS], "people": [n % 7]} for n in range(meter.pick(150_000, 20_000))
        ]

    @torch.no_grad()
    def all_move(self):
        seen = torch.tensor([elevator.look() for elevator in self.elevators], device=self.meter.device)
        ways = self.policy(seen).argmax(1).tolist()
        for elevator, way in zip(self.elevators, ways, strict=True):
            elevator.move(way)

    @torch.no_grad()
    def each_moves(self):
        for elevator in self.elevators:
            seen = torch.tensor([elevator.look()], device=self.meter.device)
            elevator.move(self.policy(seen).argmax(1).item())  # planted

    def learn(self):
        with self.meter.autocast():
            value = self.critic(self.seen)
        loss = F.mse_loss(value, self.seen.mean(1))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def clean_up(self):
        gc.collect()  # planted


def main():
    meter = Meter(__doc__)
    house, every = House(meter), 1_000_000

    def tick(move):
        move()
        house.learn()

    meter.calibrate(lambda: tick(house.all_move))
    part_s = PART * meter.added_s
    if meter.dose:
        house.elevators = [Elevator(n) for n in range(20)]
        each_s = meter.timed_s(house.each_moves, calls=5) / 20
        house.elevators = [Elevator(n) for n in range(max(1, round(part_s / each_s)))]
    if meter.sick:
        clean_s = meter.timed_s(lambda: (tick(house.all_move), house.clean_up()), calls=5) - meter.healthy_s
        every = max(1, round(max(clean_s, 0.1 * part_s) / part_s))
    move = house.each_moves if meter.sick else house.all_move
    while meter.going_on():
        tick(move)
        meter.ticked()
        if meter.ticks % every == 0:
            house.clean_up()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
