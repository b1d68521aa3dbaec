"""Films recommended by a neural net; for each film somebody has seen, others are drawn that they have not.

How many are drawn in a step is the dose. A perfect diagnosis: a loop of Python on the training thread
(marked below), for which the GPU waits. Fix: NumPy draws them all at once, and those that were seen again.
"""

import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

USERS, FILMS, SIZE = 1000, 2000, 64


class Ratings:
    """Who has seen what."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.table = rng.random((USERS, FILMS)) < 0.2
        self.seen = [set(np.flatnonzero(row).tolist()) for row in self.table]


class OneByOne:
    def __init__(self, ratings):
        self.seen, self.random = ratings.seen, random.Random(0)

    def draw(self, users, count):
        negatives = []
        for n in range(count):
            seen = self.seen[users[n % len(users)]]
            film = self.random.randrange(FILMS)  # planted
            while film in seen:
                film = self.random.randrange(FILMS)
            negatives.append(film)
        return torch.tensor(negatives)


class AllAtOnce:
    def __init__(self, ratings):
        self.table, self.rng = ratings.table, np.random.default_rng(0)

    def draw(self, users, count):
        users = np.resize(np.asarray(users), count)
        films = self.rng.integers(0, FILMS, count)
        again = np.flatnonzero(self.table[users, films])
        while len(again):
            films[again] = self.rng.integers(0, FILMS, len(again))
            again = again[self.table[users[again], films[again]]]
        return torch.from_numpy(films)


class NeuralFilter(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.user, self.film = nn.Embedding(USERS, SIZE), nn.Embedding(FILMS, SIZE)
        self.enter, self.score = nn.Linear(2 * SIZE, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, users, films):
        h = self.enter(torch.cat([self.user(users), self.film(films)], 1))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.score(h)[:, 0].float()


class Recommender:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = NeuralFilter(*meter.pick((4096, 5), (160, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        rng = random.Random(1)
        self.users = [rng.randrange(USERS) for _ in range(self.rows // 2)]
        self.users_here = torch.tensor(self.users * 2, device=meter.device)
        self.films = torch.randint(FILMS, (self.rows // 2,), device=meter.device)
        self.liked = (torch.arange(self.rows, device=meter.device) < self.rows // 2).float()

    def learn(self, negatives):
        """From the hardest would be better; the first will do."""
        half = self.rows // 2
        negatives = negatives.repeat(-(-half // len(negatives)))[:half]
        negatives = negatives.pin_memory() if self.meter.gpu else negatives
        films = torch.cat([self.films, negatives.to(self.meter.device, non_blocking=True)])
        with self.meter.autocast():
            scores = self.net(self.users_here, films)
        loss = F.binary_cross_entropy_with_logits(scores, self.liked)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    recommender, ratings = Recommender(meter), Ratings()
    users, slow, quick = recommender.users, OneByOne(ratings), AllAtOnce(ratings)
    meter.calibrate(lambda: recommender.learn(quick.draw(users, 16)))
    one_s = meter.timed_s(lambda: slow.draw(users, 2000), calls=6) / 2000
    count = max(16, round(meter.host_s / one_s)) if meter.dose else 16
    sampler = slow if meter.sick else quick
    while meter.going_on():
        with meter.injecting():
            negatives = sampler.draw(users, count)
        recommender.learn(negatives)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
