"""Two faults: garbage is collected too often; walks through a maze in a process and updates take turns.

Each takes three quarters of a dose. A perfect diagnosis names both: pauses of the garbage collector (first
marked line), and that rollout and update take turns (second). Fix: garbage is left to Python, and the
next walk begins before the update.
"""

import gc
import multiprocessing
import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

PART, SIDE, SEEN, MOVES, WALK, LEARNT, RARELY = 0.75, 12, 8, 4, 48, 256, 5000
WAYS = ((0, 1), (1, 0), (0, -1), (-1, 0))


class Cell:
    """Knows its neighbours, and when it was visited."""

    def __init__(self, y, x):
        self.y, self.x, self.doors, self.visits = y, x, [], []


def dig_mazes(count, rng):
    mazes = []
    for _ in range(count):
        cells = {(y, x): Cell(y, x) for y in range(SIDE) for x in range(SIDE)}
        for (y, x), cell in cells.items():
            for dy, dx in WAYS:
                other = cells.get((y + dy, x + dx))
                cell.doors.append(other if other and rng.random() < 0.8 else None)
        mazes.append(cells)
    return mazes


def look(cell, sight):
    """How far one sees each way, smoothed over what one saw while walking there."""
    seen = [0.0] * MOVES
    for way in range(MOVES):
        here, far = cell, 0
        for _ in range(sight):
            here = here.doors[way] or here
            far += here.doors[way] is not None
        seen[way] = far / max(1, sight)
    return [*seen, cell.y / SIDE, cell.x / SIDE, 1.0, len(cell.visits) / 100]


def walker(line, cells):
    """A process that walks whenever it is told to, by a table of chances."""
    rng, sight, here = random.Random(1), 2, cells[0, 0]
    while (told := line.recv()) is not None:
        if isinstance(told, int):
            sight = told
            continue
        rows = np.empty((WALK, SEEN + 2), np.float32)
        for row in rows:
            row[:SEEN] = look(here, sight)
            move = int((told @ row[:SEEN] + [rng.gauss(0, 1) for _ in range(MOVES)]).argmax())
            after = here.doors[move]
            row[SEEN:] = move, after is not None
            here = after or here
        line.send(rows)


class RND(nn.Module):
    """What surprises: a net that guesses what another, never trained, says."""

    def __init__(self, size=400):
        super().__init__()

        def net():
            return nn.Sequential(nn.Linear(SEEN, size), nn.ReLU(), nn.Linear(size, size))

        self.fixed, self.guess = net().requires_grad_(False), net()

    def forward(self, seen):
        return (self.fixed(seen) - self.guess(seen)).square().mean(1)


class Explorer:
    def __init__(self, device):
        self.device, self.rnd = device, RND().to(device)
        self.policy = nn.Linear(SEEN, MOVES, bias=False).to(device)
        self.critic = nn.Sequential(nn.Linear(SEEN, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
        params = [*self.rnd.guess.parameters(), *self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(params, lr=1e-4)
        self.recent = torch.zeros(LEARNT, SEEN + 2)

    def chances(self):
        return self.policy.weight.detach().cpu().numpy().copy()

    def update(self, rows):
        self.recent = torch.cat([self.recent, torch.from_numpy(rows)])[-LEARNT:]
        seen, move, reward = self.recent.to(self.device).split((SEEN, 1, 1), 1)
        for _ in range(2):
            strange = self.rnd(seen)
            value = self.critic(seen)
            gain = (reward[:, 0] + strange.detach() - value[:, 0].detach()).clamp(-2, 2)
            log_p = self.policy(seen).log_softmax(1).gather(1, move.long())[:, 0]
            wanted = reward + strange.detach()[:, None]
            loss = strange.mean() + F.mse_loss(value, wanted) - 0.1 * (gain * log_p).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def tidy_after(optimizer, every, spent):
    """Has memory freed after so many steps of an optimizer."""
    steps = 0

    def freed(optimizer, args, kwargs):
        nonlocal steps
        steps += 1
        if steps % every == 0:
            with spent():
                gc.collect()  # planted

    optimizer.register_step_post_hook(freed)


def main():
    meter, mazes = Meter(__doc__), dig_mazes(100, random.Random(0))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=walker, args=(there, mazes[0]), daemon=True)
    process.start()
    explorer, every = Explorer(meter.device), RARELY
    meter.calibrate(lambda: explorer.update(np.zeros((WALK, SEEN + 2), np.float32)))
    part_s = PART * meter.added_s

    def walked():
        here.send(explorer.chances())
        return here.recv()

    if meter.dose:

        def walking(sight):
            here.send(sight)
            return lambda: (here.send(sight), walked())

        here.send(amount_taking(meter, walking, 1, 41, part_s))
    if meter.sick:
        # Two steps of the optimizer make an update.
        every = max(1, round(2 * meter.timed_s(gc.collect, calls=4) / part_s))
        tidy_after(explorer.optimizer, every, meter.injecting)
        while meter.going_on():
            with meter.injecting():
                rows = walked()  # planted
            explorer.update(rows)
            meter.ticked()
    else:
        here.send(explorer.chances())
        while meter.going_on():
            rows = here.recv()
            here.send(explorer.chances())
            explorer.update(rows)
            meter.ticked()
        here.recv()
    meter.report()
    here.send(None)
    process.join()


if __name__ == "__main__":
    main()
