"""Actor-critic on Gymnasium environments that are stepped one after the other on the training's thread.

A perfect diagnosis: the GPU is idle while the environments are stepped, serially and on the training thread
(`SyncVectorEnv`), at the line marked below. Fix: `AsyncVectorEnv`, asked before the update and read after
it.
"""

import sys
import time
from functools import partial

import numpy as np
import torch
from meter import Meter
from torch import nn

ENVS, STATE = 4, 24


def make_env(step_s):
    """A chain of masses and springs; `step_s` of integration in small time steps."""
    import gymnasium

    class Chain(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (STATE,), np.float32)
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place, self.speed = np.zeros(STATE // 2), self.np_random.normal(0, 1, STATE // 2)
            self.age = 0
            return self.seen(), {}

        def seen(self):
            return np.concatenate((self.place, self.speed)).astype(np.float32)

        def step(self, action):
            end_s = time.thread_time() + step_s
            while True:
                pull = np.diff(self.place, prepend=0.0, append=0.0)
                self.speed += 0.001 * (np.diff(pull) - 0.1 * self.speed)
                self.speed[-1] += 0.001 * float(action[0])
                self.place += 0.001 * self.speed
                if time.thread_time() >= end_s:
                    break
            self.age += 1
            return self.seen(), -float(np.abs(self.place).sum()), False, self.age >= 200, {}

    return Chain()


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Linear(STATE, width), nn.Tanh()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.body, self.actor, self.critic = nn.Sequential(*layers), nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, seen):
        hidden = self.body(seen)
        return self.actor(hidden).tanh(), self.critic(hidden)


def main():
    meter = Meter(__doc__)
    try:
        from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
    except ImportError:
        sys.exit("gym_serial.py needs gymnasium")
    agent = ActorCritic(*meter.pick((4096, 5), (128, 2))).to(meter.device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-5, fused=meter.gpu)
    memory = torch.randn(meter.pick(16384, 256), STATE, device=meter.device)
    pay = torch.randn(len(memory), 1, device=meter.device)

    def update():
        with meter.autocast():
            action, value = agent(memory)
            loss = (value - pay).square().mean() - 0.01 * (action * (pay - value.detach())).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def act(seen):
        action, _ = agent(torch.from_numpy(seen).to(meter.device))
        return action.float().cpu().numpy()

    meter.calibrate(update)
    apart = meter.fixed
    vector = (AsyncVectorEnv if apart else SyncVectorEnv)([partial(make_env, meter.added_s / ENVS)] * ENVS)
    seen, _ = vector.reset(seed=0)
    while meter.going_on():
        actions = act(seen)
        if apart:
            vector.step_async(actions)
            update()
            seen, reward, *_ = vector.step_wait()
        else:
            with meter.injecting():
                seen, reward, *_ = vector.step(actions)  # planted
        at = meter.ticks * ENVS % (len(memory) - ENVS)
        memory[at : at + ENVS] = torch.from_numpy(seen).to(meter.device)
        pay[at : at + ENVS, 0] = torch.from_numpy(reward).to(pay)
        if not apart:
            update()
        meter.ticked()
    vector.close()
    meter.report()


if __name__ == "__main__":
    main()
