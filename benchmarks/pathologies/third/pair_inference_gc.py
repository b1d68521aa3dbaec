"""Two faults: an actor-critic that asks for each environment's action alone, and collects garbage by hand.

Each takes three quarters of a dose. A perfect diagnosis names both: one inference for each environment
(first marked line) and pauses of the garbage collector (second). Fix: one batch of observations, no
collection.
"""

import gc

import gymnasium as gym
import numpy as np
import torch
from stopwatch import Meter
from torch import nn
from torch.distributions import Categorical

PART, HORIZON_ROWS = 0.75, 8192


class ActorCritic(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.enter = nn.Linear(2, dim)
        self.body = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.pi, self.v = nn.Linear(dim, 3), nn.Linear(dim, 1)

    def forward(self, obs):
        x = torch.tanh(self.enter(obs))
        for layer in self.body:
            x = x + torch.tanh(layer(x))
        return self.pi(x), self.v(x)


def choose(net, obs, meter):
    with torch.no_grad(), meter.autocast():
        logits, _ = net(torch.as_tensor(obs).to(meter.device))
    return Categorical(logits=logits.float(), validate_args=False).sample().cpu().numpy()


class Hills:
    def __init__(self, count):
        self.envs = [gym.make("MountainCar-v0", disable_env_checker=True) for _ in range(count)]
        self.obs = np.stack([env.reset(seed=i)[0] for i, env in enumerate(self.envs)])

    def step(self, actions):
        rewards = []
        for i, env in enumerate(self.envs):
            obs, reward, ended, cut, _ = env.step(int(actions[i]))
            self.obs[i] = env.reset()[0] if ended or cut else obs
            rewards.append(float(reward))
        return rewards


def main():
    meter = Meter(__doc__)
    net = ActorCritic(*meter.pick((4096, 5), (32, 1))).to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-5, fused=meter.gpu)
    rows = meter.pick(HORIZON_ROWS, 64)
    recent = torch.randn(rows, 2, device=meter.device)
    taken = torch.randint(3, (rows,), device=meter.device)
    returns = torch.randn(rows, 1, device=meter.device)

    def update():
        with meter.autocast():
            logits, value = net(recent)
        gain = returns - value.float()
        chosen = logits.float().log_softmax(-1).gather(1, taken[:, None])
        loss = -(chosen * gain.detach()).mean() + gain.square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(update)
    part_s = PART * meter.added_s
    one = np.zeros(2, np.float32)
    hills = Hills(max(4, round(part_s / meter.timed_s(lambda: choose(net, one, meter), calls=10))))
    collect_every = max(1, round(meter.timed_s(gc.collect) / part_s)) if meter.sick else 0
    while meter.going_on():
        if meter.sick:
            actions = [choose(net, obs, meter) for obs in hills.obs]  # planted
        else:
            actions = choose(net, hills.obs, meter)
        rewards = hills.step(actions)
        seen = torch.from_numpy(hills.obs).to(meter.device)
        recent[: len(rewards)], returns[: len(rewards), 0] = seen, torch.tensor(rewards).to(meter.device)
        if collect_every and meter.ticks % collect_every == 0:
            gc.collect()  # planted
        update()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
