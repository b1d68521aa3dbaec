"""A quadruped learns to trot; its physics are tensors, for all robots at once, and its reward is not.

The reward of each robot is the sum of terms, each a small function over joints and feet, and the mean of
the last moments. How many moments is the dose. A perfect diagnosis: hot lines of Python on the training
thread (any line marked below). Fix: the same terms over arrays.
"""

import math
from collections import deque
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import torch
from stopwatch import Meter, amount_taking
from torch import nn
from torch.distributions import Normal

JOINTS, FEET, ROBOTS, LEARNT = 8, 4, 16, 128
WEIGHTS = {"upright": 0.5, "energy": -0.02, "clearance": 0.3, "symmetry": -0.1, "smooth": -0.05}


def make_physics(robots, device):
    """A function from torques to what is seen of each robot."""
    torch.manual_seed(1)
    couple = 0.1 * torch.randn(JOINTS, JOINTS, device=device)
    state = torch.zeros(robots, 2 * JOINTS, device=device)

    def simulate(torque):
        nonlocal state
        angle, speed = state.chunk(2, 1)
        speed = 0.95 * speed + 0.05 * (torque.tanh() + angle.sin() @ couple - angle)
        state = torch.cat([angle + 0.1 * speed, speed], 1)
        return state

    return simulate, state


class PlainReward:
    """Terms by name, so that each can be weighed in the configuration."""

    def __call__(self, states, torques):
        rows = zip(states.tolist(), torques.tolist(), strict=True)
        return torch.tensor([self.of_robot(*row) for row in rows])  # planted

    def of_robot(self, state, torque):
        robot = SimpleNamespace(angle=state[:JOINTS], speed=state[JOINTS:], torque=torque)
        terms = {name: getattr(self, name)(robot) for name in WEIGHTS}  # planted
        return sum(WEIGHTS[name] * value for name, value in terms.items())

    def upright(self, robot):
        def lean(leg):
            return sum(math.sin(angle) for angle in robot.angle[2 * leg : 2 * leg + 2])

        return math.exp(-sum(lean(leg) ** 2 for leg in range(FEET)))  # planted

    def energy(self, robot):
        return sum(abs(torque * speed) for torque, speed in zip(robot.torque, robot.speed, strict=True))

    def clearance(self, robot):
        def height(leg):
            hip, knee = robot.angle[2 * leg], robot.angle[2 * leg + 1]
            return 1 - 0.5 * math.cos(hip) - 0.5 * math.cos(hip + knee)

        return min(height(leg) for leg in range(FEET))  # planted

    def symmetry(self, robot):
        return sum(abs(robot.angle[n] - robot.angle[JOINTS - 1 - n]) for n in range(JOINTS // 2))

    def smooth(self, robot):
        return sum(speed * speed for speed in robot.speed)


def array_reward(states, torques):
    angle, speed = (part.numpy() for part in states.cpu().chunk(2, 1))
    legs = angle.reshape(-1, FEET, 2)
    height = 1 - 0.5 * np.cos(legs[:, :, 0]) - 0.5 * np.cos(legs.sum(2))
    terms = {
        "upright": np.exp(-(np.sin(legs).sum(2) ** 2).sum(1)),
        "energy": np.abs(torques.cpu().numpy() * speed).sum(1),
        "clearance": height.min(1),
        "symmetry": np.abs(angle - angle[:, ::-1])[:, : JOINTS // 2].sum(1),
        "smooth": (speed**2).sum(1),
    }
    return torch.from_numpy(sum(WEIGHTS[name] * value for name, value in terms.items()))


def mlp(*sizes):
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ELU())]
    return nn.Sequential(*layers[:-1])


def train(meter):
    actor, critic = mlp(2 * JOINTS, 640, 640, JOINTS).to(meter.device), mlp(2 * JOINTS, 704, 704, 1)
    critic = critic.to(meter.device)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)

    def update(seen, torque, reward):
        worth = critic(seen)[:, 0]
        critic_optimizer.zero_grad()
        (worth - reward).square().mean().backward()
        critic_optimizer.step()
        policy = Normal(actor(seen), 0.4)
        gain = (reward - worth.detach()).clamp(-2, 2)
        actor_optimizer.zero_grad()
        (-policy.log_prob(torque).sum(1) * gain).mean().backward()
        actor_optimizer.step()

    def iterate(simulate, seen, history, reward_of, spent):
        with torch.no_grad():
            torque = Normal(actor(seen), 0.4).sample()
            after = simulate(torque)
        history.append(after)
        with spent():
            rewards = reward_of(torch.cat([*history]), torque.repeat(len(history), 1))
        reward = rewards.view(-1, ROBOTS).mean(0).float().to(meter.device)
        picked = torch.arange(LEARNT) % ROBOTS
        update(seen[picked], torque[picked], reward[picked])
        return after

    moments, nothing = 1, torch.no_grad
    simulate, seen = make_physics(ROBOTS, meter.device)
    meter.calibrate(lambda: iterate(simulate, seen, deque(maxlen=1), array_reward, nothing))
    if meter.dose:

        def judging(moments):
            count = moments * ROBOTS
            return lambda: PlainReward()(torch.rand(count, 2 * JOINTS), torch.rand(count, JOINTS))

        moments = amount_taking(meter, judging, 1, 11, meter.added_s)
    history = deque([seen] * moments, maxlen=moments)
    reward_of = PlainReward() if meter.sick else array_reward
    while meter.going_on():
        seen = iterate(simulate, seen, history, reward_of, meter.injecting)
        meter.ticked()


def main():
    meter = Meter(__doc__)
    train(meter)
    meter.report()


if __name__ == "__main__":
    main()
