"""Which article comes next in a session? Sessions are lists of events, made a batch at the last moment.

For each visitor the list is filtered, shortened and padded anew, in Python. How many events a visitor has
is the dose. A perfect diagnosis: hot lines of Python on the training thread (any line marked below). Fix:
an array of all visitors' last articles, made once.
"""

import random

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

ARTICLES, VISITORS, KEPT, BATCH = 5000, 600, 20, 48


class Visitor:
    def __init__(self, rng, events):
        self.events = [
            {"article": rng.randrange(1, ARTICLES), "kind": rng.choice(("view", "view", "buy", "scroll"))}
            for _ in range(events)
        ]
        self.next_article = rng.randrange(1, ARTICLES)


class Sessions:
    def __init__(self, events):
        rng = random.Random(4)
        self.visitors = [Visitor(rng, events) for _ in range(VISITORS)]

    def last_articles(self, visitor):
        viewed = [event["article"] for event in visitor.events if event["kind"] != "scroll"]  # planted
        kept = viewed[-KEPT:]
        return [0] * (KEPT - len(kept)) + kept

    def batch(self, picked):
        visitors = [self.visitors[number] for number in picked]
        histories = [self.last_articles(visitor) for visitor in visitors]  # planted
        return torch.tensor(histories), torch.tensor([visitor.next_article for visitor in visitors])


class SessionTable:
    def __init__(self, sessions):
        histories, following = sessions.batch(range(VISITORS))
        self.histories, self.following = histories, following

    def batch(self, picked):
        return self.histories[picked], self.following[picked]


class AttentivePool(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(2 * size, size), nn.Sigmoid(), nn.Linear(size, 1, bias=False))

    def forward(self, states):
        last = states[:, -1:].expand_as(states)
        weight = self.score(torch.cat([states, last], 2)).softmax(1)
        return (weight * states).sum(1)


class SessionRec(nn.Module):
    def __init__(self, size=112):
        super().__init__()
        self.articles = nn.Embedding(ARTICLES, size, padding_idx=0)
        self.gru, self.pool = nn.GRU(size, size, batch_first=True), AttentivePool(size)

    def forward(self, histories):
        states, _ = self.gru(self.articles(histories))
        return self.pool(states)


class Loop:
    def __init__(self, meter, sessions):
        self.meter, self.sessions, self.rng = meter, sessions, np.random.default_rng(0)
        self.model = SessionRec().to(meter.device)
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), 0.05)

    def next_batch(self):
        return self.sessions.batch(self.rng.integers(0, VISITORS, BATCH))

    def learn(self, histories, following):
        histories, following = histories.to(self.meter.device), following.to(self.meter.device)
        others = torch.randint(1, ARTICLES, (500,), device=self.meter.device)
        candidates = self.model.articles(torch.cat([following, others]))
        scores = self.model(histories) @ candidates.T
        loss = F.cross_entropy(scores, torch.arange(len(following), device=scores.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def run(self):
        while self.meter.going_on():
            with self.meter.injecting():
                histories, following = self.next_batch()
            self.learn(histories, following)
            self.meter.ticked()


def main():
    meter, events = Meter(__doc__), 24
    loop = Loop(meter, SessionTable(Sessions(events)))
    meter.calibrate(lambda: loop.learn(*loop.next_batch()))
    if meter.dose:

        def preparing(events):
            sessions = Sessions(events)
            return lambda: sessions.batch(range(BATCH))

        events = amount_taking(meter, preparing, 24, 224, meter.added_s)
    sessions = Sessions(events)
    loop.sessions = sessions if meter.sick else SessionTable(sessions)
    loop.run()
    meter.report()


if __name__ == "__main__":
    main()
