"""Healthy control: Q-learning with a few gymnasium environments stepped in a loop, at hardly any cost.

Tempting: environments on the training thread, one after another; but a step takes microseconds. A perfect
diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LANTERNS, ENVS = 6, 3


class Lanterns(gym.Env):
    """A switch turns one lantern and its neighbours; all should burn."""

    observation_space = gym.spaces.MultiBinary(LANTERNS)
    action_space = gym.spaces.Discrete(LANTERNS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.burning, self.age = [0] * LANTERNS, 0
        return self.burning, {}

    def step(self, switch):
        for n in (switch - 1, switch, switch + 1):
            self.burning[n % LANTERNS] ^= 1
        self.age += 1
        done = all(self.burning)
        return self.burning, float(done), done, self.age >= 60, {}


class QNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.value = nn.Linear(LANTERNS, width), nn.Linear(width, LANTERNS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, burning):
        h = self.enter(burning)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.value(h).float()


class Agent:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.net = QNet(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.replay = torch.zeros(rows, 2 * LANTERNS + 2, device=meter.device)
        self.rng, self.at = np.random.default_rng(0), 0

    def store(self, transitions):
        new = torch.tensor(transitions, dtype=torch.float32)
        new = new.pin_memory() if self.meter.gpu else new
        self.replay[self.at : self.at + ENVS].copy_(new, non_blocking=True)
        self.at = (self.at + ENVS) % (len(self.replay) - ENVS)

    def learn(self):
        now, later, switch, reward = self.replay.split((LANTERNS, LANTERNS, 1, 1), 1)
        with self.meter.autocast():
            value = self.net(now).gather(1, switch.long())
            with torch.no_grad():
                ahead = self.net(later).amax(1, keepdim=True)
        loss = F.smooth_l1_loss(value, reward + 0.98 * ahead)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    agent, envs = Agent(meter), [Lanterns() for _ in range(ENVS)]
    for n, env in enumerate(envs):
        env.reset(seed=n)

    def tick():
        """Switches are tried at random: what is learned is the value of each."""
        transitions = []
        for env in envs:
            before, switch = list(env.burning), int(agent.rng.integers(LANTERNS))
            after, reward, done, late, _ = env.step(switch)
            transitions.append([*before, *after, switch, reward])
            if done or late:
                env.reset()
        agent.store(transitions)
        agent.learn()

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
