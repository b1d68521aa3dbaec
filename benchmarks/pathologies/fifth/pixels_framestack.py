"""Q-learning from pixels with stacked frames; the environments of a `SyncVectorEnv` draw them in here.

How many invaders a frame has is the dose. A perfect diagnosis: environments are stepped one after another on
the training thread while the GPU waits (the step marked below). Fix: an `AsyncVectorEnv`.
"""

from collections import deque
from functools import partial

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ENVS, SIDE, MOVES = 8, 32, 3


class Invaders(gym.Env):
    """Squares that come down, and a catcher that goes left and right."""

    observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    action_space = gym.spaces.Discrete(MOVES)

    def __init__(self, invaders):
        self.invaders = invaders

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.places = self.np_random.integers(0, SIDE - 3, (self.invaders, 2)).tolist()
        self.catcher, self.age = SIDE // 2, 0
        return self._drawn(), {}

    def step(self, action):
        self.catcher = min(max(self.catcher + int(action) - 1, 0), SIDE - 4)
        caught, self.age = 0, self.age + 1
        for place in self.places:
            place[0] += 1
            if place[0] > SIDE - 3:
                caught += abs(place[1] - self.catcher) < 4
                place[0], place[1] = 0, (7 * place[1] + self.age) % (SIDE - 3)
        return self._drawn(), float(caught), False, self.age >= 500, {}

    def _drawn(self):
        frame = np.zeros((SIDE, SIDE), np.uint8)
        for top, left in self.places:
            frame[top : top + 3, left : left + 3] = 200
        frame[-2:, self.catcher : self.catcher + 4] = 255
        return frame


class Stack(gym.Wrapper):
    """The last four frames."""

    observation_space = gym.spaces.Box(0, 255, (4, SIDE, SIDE), np.uint8)

    def reset(self, **options):
        frame, info = self.env.reset(**options)
        self.frames = deque([frame] * 4, maxlen=4)
        return np.stack(self.frames), info

    def step(self, action):
        frame, *rest = self.env.step(action)
        self.frames.append(frame)
        return np.stack(self.frames), *rest


class QNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(4, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.q = nn.Linear(width, MOVES)

    def forward(self, frames):
        h = self.stem((frames.float() / 255).contiguous(memory_format=torch.channels_last))
        for conv in self.body:
            h = h + F.relu(conv(h), inplace=True)
        return self.q(h.mean((2, 3))).float()


class Learner:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(512, 16)
        self.net = QNet(*meter.pick((512, 7), (24, 3))).to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        size = meter.pick(20_000, 400)
        self.frames = torch.zeros(size, 4, SIDE, SIDE, dtype=torch.uint8, device=meter.device)
        self.moves = torch.zeros(size, dtype=torch.long, device=meter.device)
        self.rewards = torch.zeros(size, device=meter.device)
        self.place = 0

    @torch.no_grad()
    def act(self, frames):
        with self.meter.autocast():
            best = self.net(torch.from_numpy(frames).to(self.meter.device)).argmax(1)
        wild = torch.rand(len(best), device=best.device) < 0.1
        return torch.where(wild, torch.randint_like(best, MOVES), best).cpu().numpy()

    def store(self, frames, moves, rewards):
        rows = slice(self.place, self.place + ENVS)
        for kept, new in ((self.frames, frames), (self.moves, moves), (self.rewards, rewards)):
            kept[rows] = torch.from_numpy(new).to(self.meter.device, kept.dtype)
        self.place = (self.place + ENVS) % len(self.moves)

    def learn(self):
        rows = torch.randint(len(self.moves) - ENVS, (self.batch,), device=self.meter.device)
        with self.meter.autocast():
            now = self.net(self.frames[rows]).gather(1, self.moves[rows, None])[:, 0]
            with torch.no_grad():
                later = self.net(self.frames[rows + ENVS]).amax(1)
        loss = F.smooth_l1_loss(now, self.rewards[rows] + 0.99 * later)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def make(invaders):
    return Stack(Invaders(invaders))


def invaders_taking(meter, wanted_s):
    env = make(300)
    env.reset(seed=0)
    return max(3, round(wanted_s / ENVS * 300 / meter.timed_s(lambda: env.step(1), calls=10)))


def main():
    meter = Meter(__doc__)
    learner = Learner(meter)
    still = np.zeros((ENVS, 4, SIDE, SIDE), np.uint8)
    meter.calibrate(lambda: (learner.act(still), learner.learn()))
    invaders = invaders_taking(meter, meter.added_s) if meter.dose else 3
    kind = gym.vector.AsyncVectorEnv if meter.fixed else gym.vector.SyncVectorEnv
    envs = kind([partial(make, invaders) for _ in range(ENVS)])
    frames, _ = envs.reset(seed=0)
    while meter.going_on():
        moves = learner.act(frames)
        with meter.injecting():
            after, rewards, *_ = envs.step(moves)  # planted
        learner.store(frames, moves, rewards)
        learner.learn()
        frames = after
        meter.ticked()
    meter.report()
    envs.close()


if __name__ == "__main__":
    main()
