"""PPO on two-link arms; each arm is a Gymnasium environment, and a SyncVectorEnv steps one after another.

An arm is moved in small steps of time, by plain Python. How small is the dose. A perfect diagnosis:
environments stepped by the training thread (any line marked below). Fix: a vector environment of arrays.
"""

import math
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from stopwatch import Meter, amount_taking
from torch import nn
from torch.distributions.normal import Normal


@dataclass
class Args:
    num_envs: int = 6
    num_steps: int = 16
    update_epochs: int = 2
    num_minibatches: int = 2
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5


OBS = 8


class ArmEnv(gym.Env):
    """Torques in; the hand should come near a place on the table."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, substeps):
        self.substeps = substeps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angles, self.speeds, self.time = [0.3, 0.5], [0.0, 0.0], 0
        self.goal = self.np_random.uniform(-1, 1, 2).tolist()
        return self.observation(), {}

    def hand(self):
        one, other = self.angles
        return math.cos(one) + math.cos(one + other), math.sin(one) + math.sin(one + other)

    def observation(self):
        return np.array([*self.angles, *self.speeds, *self.goal, *self.hand()], np.float32)

    def move(self, torques, dt):
        """One small step: what one link does pulls at the other."""
        pull = math.sin(self.angles[1]) * self.speeds[0] * self.speeds[1]  # planted
        for joint in range(2):
            force = 4 * torques[joint] - 0.5 * self.speeds[joint] - (0.3 - 0.6 * joint) * pull  # planted
            self.speeds[joint] += dt * force
            self.angles[joint] += dt * self.speeds[joint]

    def step(self, action):
        torques = action.tolist()
        for _ in range(self.substeps):
            self.move(torques, 0.05 / self.substeps)  # planted
        self.time += 1
        away = math.dist(self.hand(), self.goal)
        return self.observation(), -away, away < 0.05, self.time >= 200, {}


class ArrayArms:
    """The same for all arms at once, in one step of time."""

    def __init__(self, num_envs):
        self.num_envs, self.rng = num_envs, np.random.default_rng(0)

    def reset(self, seed=None):
        self.angles, self.speeds = np.full((self.num_envs, 2), 0.4), np.zeros((self.num_envs, 2))
        self.goal = self.rng.uniform(-1, 1, (self.num_envs, 2))
        return self.observation(), {}

    def observation(self):
        one, both = self.angles[:, :1], self.angles.sum(1, keepdims=True)
        self.hand = np.hstack([np.cos(one) + np.cos(both), np.sin(one) + np.sin(both)])
        return np.hstack([self.angles, self.speeds, self.goal, self.hand]).astype(np.float32)

    def step(self, action):
        pull = (np.sin(self.angles[:, 1]) * self.speeds.prod(1))[:, None] * np.array([0.3, -0.3])
        self.speeds = self.speeds + 0.05 * (4 * action - 0.5 * self.speeds - pull)
        self.angles = self.angles + 0.05 * self.speeds
        obs = self.observation()
        away = np.linalg.norm(self.hand - self.goal, axis=1)
        return obs, -away, away < 0.05, np.zeros(self.num_envs, bool), {}


def layer_init(layer, std=2**0.5):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    def __init__(self, hidden=224):
        super().__init__()

        def tower(outside, std):
            return nn.Sequential(
                layer_init(nn.Linear(OBS, hidden)),
                nn.Tanh(),
                layer_init(nn.Linear(hidden, hidden)),
                nn.Tanh(),
                layer_init(nn.Linear(hidden, outside), std),
            )

        self.critic, self.actor_mean = tower(1, 1.0), tower(2, 0.01)
        self.actor_logstd = nn.Parameter(torch.zeros(1, 2))

    def get_value(self, x):
        return self.critic(x)[:, 0]

    def get_action_and_value(self, x, action=None):
        probs = Normal(self.actor_mean(x), self.actor_logstd.exp())
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.get_value(x)


def make_iteration(agent, args, meter):
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    device, count = meter.device, args.num_envs
    obs = torch.zeros(args.num_steps, count, OBS, device=device)
    actions = torch.zeros(args.num_steps, count, 2, device=device)
    logprobs, rewards, dones, values = torch.zeros(4, args.num_steps, count, device=device)

    def iteration(envs, next_obs, next_done):
        for step in range(args.num_steps):
            obs[step], dones[step] = next_obs, next_done
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.get_action_and_value(next_obs)
            with meter.injecting():
                seen, reward, terminated, truncated, _ = envs.step(actions[step].cpu().numpy())  # planted
            rewards[step] = torch.as_tensor(reward, dtype=torch.float32)
            next_obs = torch.as_tensor(seen, device=device)
            next_done = torch.as_tensor(terminated | truncated, dtype=torch.float32, device=device)
        with torch.no_grad():
            advantages, last = torch.zeros_like(rewards), 0
            following, alive = agent.get_value(next_obs), 1 - next_done
            for t in reversed(range(args.num_steps)):
                delta = rewards[t] + args.gamma * following * alive - values[t]
                advantages[t] = last = delta + args.gamma * args.gae_lambda * alive * last
                following, alive = values[t], 1 - dones[t]
        update(advantages.flatten())
        return next_obs, next_done

    def update(advantages):
        b_obs, b_actions = obs.flatten(0, 1), actions.flatten(0, 1)
        returns = advantages + values.flatten()
        for _ in range(args.update_epochs):
            for rows in torch.randperm(len(b_obs), device=device).chunk(args.num_minibatches):
                _, logprob, entropy, value = agent.get_action_and_value(b_obs[rows], b_actions[rows])
                ratio, gain = (logprob - logprobs.flatten()[rows]).exp(), advantages[rows]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = torch.max(-gain * ratio, -gain * clipped).mean()
                v_loss = 0.5 * (value - returns[rows]).square().mean()
                optimizer.zero_grad()
                (pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

    return iteration


def main():
    meter, args = Meter(__doc__), Args()
    iteration = make_iteration(Agent().to(meter.device), args, meter)

    def started(envs):
        seen, _ = envs.reset(seed=1)
        return torch.as_tensor(seen, device=meter.device), torch.zeros(args.num_envs, device=meter.device)

    def arms(substeps):
        return gym.vector.SyncVectorEnv([lambda: ArmEnv(substeps) for _ in range(args.num_envs)])

    envs = ArrayArms(args.num_envs)
    state = started(envs)
    meter.calibrate(lambda: iteration(envs, *state))
    if meter.dose:
        nothing = np.zeros((args.num_envs, 2), np.float32)

        def stepping(substeps):
            tried = arms(substeps)
            tried.reset(seed=1)
            return lambda: tried.step(nothing)

        substeps = amount_taking(meter, stepping, 1, 41, meter.added_s / args.num_steps)
        if meter.sick:
            envs = arms(substeps)
            state = started(envs)
    meter.injected_s = 0.0
    while meter.going_on():
        state = iteration(envs, *state)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
