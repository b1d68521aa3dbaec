"""Two faults: bidders in an auction ask the policy one by one, and a league of old policies is written often.

Each takes three quarters of a dose. A perfect diagnosis names both: an inference for each bidder (first
marked line), and a net written every few rounds (second). Fix: one batch of bidders; the league is written at
the end.
"""

import random
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SEEN, BIDS = 0.75, 5, 10


class Bidder:
    def __init__(self, number):
        self.random = random.Random(number)
        self.purse, self.value = 1.0, self.random.random()

    def look(self):
        return [self.purse, self.value, self.purse - self.value, self.random.random(), 1.0]

    def settle(self, bid, price):
        won = bid / BIDS >= price
        self.purse = 0.99 * self.purse + 0.01 + (self.value - price) * 0.1 * won
        self.value = self.random.random()
        return float(won) * (self.value - price)


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden, self.bid = nn.Linear(SEEN, width), nn.Linear(width, BIDS)

    def forward(self, seen):
        return self.bid(F.relu(self.hidden(seen)))


class Appraiser(nn.Module):
    """The large critic that all bidders share while they learn."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.worth = nn.Linear(SEEN, width), nn.Linear(width, BIDS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.worth(h).float()


class League:
    def __init__(self, meter, folder):
        self.meter, self.folder, rows = meter, folder, meter.pick(8192, 128)
        self.policy = Policy(meter.pick(256, 32)).to(meter.device)
        self.critic = Appraiser(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        weights = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.seen = torch.rand(rows, SEEN, device=meter.device)
        self.bids = torch.zeros(rows, 1, dtype=torch.long, device=meter.device)
        self.gains = torch.zeros(rows, 1, device=meter.device)

    @torch.no_grad()
    def bid(self, looks):
        logits = self.policy(torch.tensor(looks).to(self.meter.device))
        return torch.multinomial(logits.softmax(1), 1)[:, 0].tolist()

    def bid_alone(self, looks):
        return [self.bid([look])[0] for look in looks]  # planted

    def auction(self, bidders, alone):
        looks = [bidder.look() for bidder in bidders]
        bids = self.bid_alone(looks) if alone else self.bid(looks)
        price = sorted(bids)[-2] / BIDS
        gains = [bidder.settle(bid, price) for bidder, bid in zip(bidders, bids, strict=True)]
        count = min(len(bids), len(self.seen))
        columns = (self.seen, looks), (self.bids, [[b] for b in bids]), (self.gains, [[g] for g in gains])
        for kept, new in columns:
            kept[:count] = torch.tensor(new[:count]).to(self.meter.device)

    def learn(self):
        with self.meter.autocast():
            worth = self.critic(self.seen)
        likely = self.policy(self.seen).log_softmax(1)
        bid_worth = worth.gather(1, self.bids)
        edge = (self.gains - bid_worth).detach()
        loss = F.mse_loss(bid_worth, self.gains) - (likely.gather(1, self.bids) * edge).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def enter_league(self, number):
        member = {"policy": self.policy.state_dict(), "critic": self.critic.state_dict()}
        torch.save(member, self.folder / f"member{number % 5}.pt")  # planted


def main():
    meter = Meter(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        league, bidders = League(meter, Path(folder)), [Bidder(n) for n in range(4)]
        meter.calibrate(lambda: (league.auction(bidders, alone=False), league.learn()))
        part_s, every = PART * meter.added_s, 100_000
        look = [bidders[0].look()]
        one_s = meter.timed_s(lambda: league.bid(look), calls=40)
        bidders = [Bidder(n) for n in range(max(4, round(part_s / one_s)))]
        if meter.sick:
            every = max(1, round(meter.timed_s(lambda: league.enter_league(0), calls=5) / part_s))
        while meter.going_on():
            with meter.injecting():
                league.auction(bidders, alone=meter.sick)
            league.learn()
            meter.ticked()
            if meter.ticks % every == 0:
                with meter.injecting():
                    league.enter_league(meter.ticks // every)
        meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
