"""DQN whose replay buffer is a deque of transitions, sampled and stacked in Python for every update.

The return over some steps is summed up for each sampled transition. A perfect diagnosis: the GPU waits for
`Replay.sample`, Python and NumPy work on the training's thread; most of it at the line marked below. Fix: the
buffer is a few tensors on the device, sampled by index.
"""

import random
from collections import deque

import numpy as np
import torch
from meter import Meter
from torch import nn

STATE, ACTIONS, GAMMA = 64, 8, 0.99


class Replay:
    def __init__(self, size):
        rng = np.random.default_rng(0)
        self.rows = deque(maxlen=size)
        self.horizon = 1
        for _ in range(size):
            self.push(rng.normal(size=STATE).astype(np.float32), int(rng.integers(ACTIONS)), rng.normal())

    def push(self, state, action, reward):
        self.rows.append((state, action, float(reward)))

    def sample(self, count):
        rows = list(self.rows)
        starts = random.choices(range(len(rows) - self.horizon - 1), k=count)
        returns = []
        for start in starts:
            total = 0.0
            for step in range(self.horizon):
                total += GAMMA**step * rows[start + step][2]  # planted
            returns.append(total)
        states = np.stack([rows[start][0] for start in starts])
        after = np.stack([rows[start + self.horizon][0] for start in starts])
        actions = np.array([rows[start][1] for start in starts])
        return states, actions, np.array(returns, dtype=np.float32), after


class DeviceReplay:
    def __init__(self, replay, device):
        states, actions, rewards = zip(*replay.rows, strict=True)
        self.states = torch.from_numpy(np.stack(states)).to(device)
        self.actions, self.rewards = (
            torch.tensor(actions, device=device),
            torch.tensor(rewards, device=device),
        )

    def sample(self, count, horizon):
        at = torch.randint(len(self.rewards) - horizon - 1, (count,), device=self.states.device)
        steps = torch.arange(horizon, device=at.device)
        returns = (self.rewards[at[:, None] + steps] * GAMMA**steps).sum(1)
        return self.states[at], self.actions[at], returns, self.states[at + horizon]


def q_net(width, depth):
    layers = [nn.Linear(STATE, width)]
    for _ in range(depth):
        layers += [nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(width, ACTIONS))


def main():
    meter = Meter(__doc__)
    shape, copies = meter.pick((6144, 4), (128, 2)), meter.pick(16, 1)
    online, target = q_net(*shape).to(meter.device), q_net(*shape).to(meter.device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-5, fused=meter.gpu)
    count = 256

    def learn(states, actions, returns, after):
        """Each transition `copies` times, with noise on the state."""
        batch = (torch.as_tensor(one).to(meter.device) for one in (states, actions, returns, after))
        states, actions, returns, after = (one.repeat_interleave(copies, 0) for one in batch)
        with meter.autocast():
            with torch.no_grad():
                goal = returns + GAMMA * target(after).amax(1)
            value = online(states + 0.01 * torch.randn_like(states)).gather(1, actions[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value.float(), goal.float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    replay = Replay(4000)
    fast = DeviceReplay(replay, meter.device)
    meter.calibrate(lambda: learn(*fast.sample(count, 1)))
    short_s = meter.timed_s(lambda: replay.sample(count))
    replay.horizon = 101
    step_s = (meter.timed_s(lambda: replay.sample(count)) - short_s) / 100
    replay.horizon = min(max(1, round((meter.host_s - short_s) / step_s)), 3000)
    while meter.going_on():
        batch = replay.sample(count) if meter.sick else fast.sample(count, replay.horizon)
        learn(*batch)
        meter.ticked()
        if meter.ticks % 200 == 0:
            target.load_state_dict(online.state_dict())
    meter.report(excess=True)


if __name__ == "__main__":
    main()
