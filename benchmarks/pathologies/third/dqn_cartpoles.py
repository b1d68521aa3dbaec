"""DQN over many CartPoles, where each one asks the network for its own action.

How many there are is the dose. A perfect diagnosis: one inference for each environment, in a Python loop,
where one for all would do (marked below). Fix: one batch of observations.
"""

import gymnasium as gym
import numpy as np
import torch
from stopwatch import Meter
from torch import nn


class DuelingQ(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = [nn.Linear(4, width), nn.GELU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.GELU()]
        self.trunk = nn.Sequential(*layers)
        self.value, self.advantage = nn.Linear(width, 1), nn.Linear(width, 2)

    def forward(self, obs):
        h = self.trunk(obs)
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(-1, keepdim=True)


class Agent:
    def __init__(self, meter):
        self.meter, shape = meter, meter.pick((3072, 3), (32, 1))
        self.online, self.target = DuelingQ(*shape).to(meter.device), DuelingQ(*shape).to(meter.device)
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.AdamW(self.online.parameters(), lr=1e-5, fused=meter.gpu)
        self.memory = torch.randn(100_000, 10, device=meter.device)
        self.batch = meter.pick(16384, 64)

    @torch.no_grad()
    def best_action(self, observation):
        with self.meter.autocast():
            return int(self.online(torch.as_tensor(observation, device=self.meter.device)).argmax())

    @torch.no_grad()
    def best_actions(self, observations):
        with self.meter.autocast():
            values = self.online(torch.as_tensor(np.stack(observations), device=self.meter.device))
        return values.argmax(1).tolist()

    def remember(self, rows):
        begin = self.meter.ticks * len(rows) % (len(self.memory) - len(rows))
        self.memory[begin : begin + len(rows)] = torch.from_numpy(rows).to(self.meter.device)

    def learn(self):
        picked = self.memory[torch.randint(len(self.memory), (self.batch,), device=self.meter.device)]
        before, after, action, reward = picked.split([4, 4, 1, 1], 1)
        with self.meter.autocast():
            with torch.no_grad():
                goal = reward + 0.99 * self.target(after).amax(1, keepdim=True)
            q = self.online(before).gather(1, (action > 0).long())
            loss = nn.functional.smooth_l1_loss(q.float(), goal.float())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class CartPoles:
    def __init__(self, count):
        self.envs = [gym.make("CartPole-v1", disable_env_checker=True) for _ in range(count)]
        self.observations = [env.reset(seed=i)[0] for i, env in enumerate(self.envs)]

    def step(self, actions):
        rows = []
        for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
            before = self.observations[i]
            after, reward, ended, cut, _ = env.step(action)
            rows.append([*before, *after, action, reward])
            self.observations[i] = env.reset()[0] if ended or cut else after
        return np.array(rows, np.float32)


def main():
    meter = Meter(__doc__)
    agent = Agent(meter)
    meter.calibrate(agent.learn)
    observation = np.zeros(4, np.float32)
    act_s = meter.timed_s(lambda: agent.best_action(observation), calls=10)
    poles = CartPoles(max(4, round(meter.added_s / act_s)))
    while meter.going_on():
        if meter.sick:
            actions = [agent.best_action(seen) for seen in poles.observations]  # planted
        else:
            actions = agent.best_actions(poles.observations)
        agent.remember(poles.step(actions))
        agent.learn()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
