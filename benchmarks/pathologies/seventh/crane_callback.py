"""Actor-critic of a crane with a swinging load; a callback lets the policy act in test cranes very often.

How often is the dose. A perfect diagnosis: evaluation takes too large a part of the time (the call marked
below). Fix: it is tested every two thousand updates.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, PUSHES = 4, 3


class Cranes:
    """All at once; the load hangs on a rope."""

    def __init__(self, count, seed):
        self.count, self.rng = count, np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.uniform(-0.5, 0.5, (self.count, SEEN)).astype(np.float32)
        return self.state.copy()

    def step(self, pushes):
        x, dx, angle, turn = self.state.T
        force = pushes.astype(np.float32) - 1
        turn = 0.99 * turn - 0.02 * (9.8 * np.sin(angle) + force * np.cos(angle))
        dx = dx + 0.02 * (force - 0.1 * dx)
        self.state = np.stack([x + 0.02 * dx, dx, angle + 0.02 * turn, turn], 1)
        return self.state.copy(), -np.abs(angle) - 0.1 * np.abs(x)


class Policy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.head = nn.Linear(SEEN, width), nn.Linear(width, PUSHES + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.head(h).float().split((PUSHES, 1), -1)


class Callback:
    def on_update(self, model, update):
        pass


class TestCallback(Callback):
    """The mean return of some episodes of fixed length, in cranes of its own."""

    def __init__(self, every, episodes=16, length=12):
        self.every, self.length, self.cranes, self.best = every, length, Cranes(episodes, 1), -np.inf

    @torch.no_grad()
    def test(self, model):
        model.policy.eval()
        seen, total = self.cranes.reset(), 0.0
        for _ in range(self.length):
            with model.meter.autocast():
                scores, _ = model.policy(torch.from_numpy(seen).to(model.meter.device))
            seen, rewards = self.cranes.step(scores.argmax(1).cpu().numpy())
            total += float(rewards.mean())
        model.policy.train()
        self.best = max(self.best, total)

    def on_update(self, model, update):
        if update % self.every == 0:
            with model.meter.injecting():
                self.test(model)  # planted


class ActorCritic:
    """Learns from swings that were recorded before, pushed at random."""

    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.policy = Policy(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.RMSprop(self.policy.parameters(), 1e-5, foreach=True)
        cranes, rng = Cranes(rows, 0), np.random.default_rng(0)
        seen, pushes = cranes.reset(), rng.integers(0, PUSHES, rows)
        then, rewards = cranes.step(pushes)
        recorded = (torch.from_numpy(part) for part in (seen, pushes, then, rewards.astype(np.float32)))
        self.recorded = [part.to(meter.device) for part in recorded]

    def update(self):
        seen, pushes, then, rewards = self.recorded
        with self.meter.autocast():
            scores, values = self.policy(seen)
            with torch.no_grad():
                target = rewards + 0.98 * self.policy(then)[1][:, 0]
        gain = target - values[:, 0]
        likely = F.cross_entropy(scores, pushes, reduction="none")
        loss = gain.square().mean() + (likely * gain.detach()).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def learn(self, callbacks):
        while self.meter.going_on():
            self.update()
            self.meter.ticked()
            for callback in callbacks:
                callback.on_update(self, self.meter.ticks)


def main():
    meter = Meter(__doc__)
    model = ActorCritic(meter)
    meter.calibrate(model.update)
    callback = TestCallback(every=2000)
    if meter.sick:
        once_s = meter.timed_s(lambda: callback.test(model))
        callback.every = max(1, round(once_s / meter.added_s))
    model.learn([Callback(), callback])
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
