"""Two faults: Q-learning on a list of gymnasium's carts, with the allocator's cache emptied before updates.

Each takes three quarters of a dose. A perfect diagnosis names both: the environments stepped one by one on
the training thread (first marked line) and memory given back to the driver and asked for again (second).
Fix: gymnasium's vector of carts, and no emptying. Needs a GPU.
"""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, OBS, PUSHES = 0.75, 4, 2


class CartList:
    def __init__(self, count):
        self.carts = [gym.make("CartPole-v1", disable_env_checker=True) for _ in range(count)]

    def reset(self):
        return np.stack([cart.reset(seed=n)[0] for n, cart in enumerate(self.carts)])

    def step(self, pushes):
        seen, won = [], []
        for cart, push in zip(self.carts, pushes, strict=True):
            obs, reward, fell, late, _ = cart.step(int(push))  # planted
            seen.append(cart.reset()[0] if fell or late else obs)
            won.append(reward)
        return np.stack(seen), np.array(won, np.float32)


class CartVector:
    def __init__(self, count):
        self.carts = gym.make_vec("CartPole-v1", count, vectorization_mode="vector_entry_point")

    def reset(self):
        return self.carts.reset(seed=0)[0]

    def step(self, pushes):
        seen, won, *_ = self.carts.step(pushes)
        return seen, won.astype(np.float32)


class QNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(OBS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, PUSHES)

    def forward(self, obs):
        h = F.mish(self.enter(obs))
        for layer in self.body:
            h = F.mish(layer(h))
        return self.leave(h).float()


class Learner:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(16384, 64)
        shape = meter.pick((2048, 6), (32, 1))
        self.q, self.slow = QNet(*shape).to(meter.device), QNet(*shape).to(meter.device)
        self.optimizer = torch.optim.Adam(self.q.parameters(), 1e-5, fused=meter.gpu)
        self.obs = torch.randn(self.rows, OBS, device=meter.device)
        self.reward = torch.zeros(self.rows, device=meter.device)
        self.push = torch.randint(PUSHES, (self.rows, 1), device=meter.device)

    @torch.no_grad()
    def act(self, obs):
        with self.meter.autocast():
            values = self.q(torch.from_numpy(obs).float().to(self.meter.device))
        return values.argmax(1).cpu().numpy()

    def remember(self, obs, reward):
        count = min(len(obs), self.rows)
        self.obs[:count] = torch.from_numpy(obs[:count]).float().to(self.meter.device)
        self.reward[:count] = torch.from_numpy(reward[:count]).to(self.meter.device)

    def update(self, empty=False):
        if empty and self.meter.gpu:
            torch.cuda.empty_cache()  # planted
        with torch.no_grad(), self.meter.autocast():
            goal = self.reward + 0.99 * self.slow(self.obs.roll(1, 0)).amax(1)
        with self.meter.autocast():
            now = self.q(self.obs).gather(1, self.push)[:, 0]
        loss = F.smooth_l1_loss(now, goal)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def cart_s(meter):
    carts = CartList(20)
    carts.reset()
    return meter.timed_s(lambda: carts.step([0] * 20), calls=20) / 20


def main():
    meter = Meter(__doc__)
    learner, one = Learner(meter), np.zeros((1, OBS), np.float32)
    meter.calibrate(lambda: (learner.act(one), learner.update()))
    part_s, every = PART * meter.added_s, 0
    if meter.sick:
        empty_s = meter.timed_s(lambda: learner.update(empty=True)) - meter.healthy_s
        every = max(1, round(empty_s / part_s))
    kind = CartList if meter.sick else CartVector
    carts = kind(max(4, round(part_s / cart_s(meter))))
    obs = carts.reset()
    while meter.going_on():
        obs, reward = carts.step(learner.act(obs))
        learner.remember(obs, reward)
        learner.update(empty=bool(every) and meter.ticks % every == 0)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
