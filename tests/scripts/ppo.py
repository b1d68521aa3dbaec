"""PPO: a rollout of 64 env steps, then 4 epochs of 4 minibatches over it.

Tick: an optimizer step. Iteration: 64 env steps and 16 ticks. `--steps` counts env steps.
"""

import numpy as np
import torch
from tiny_job import Losses, arguments, report
from torch import nn
from toy_env import Line

ROLLOUT, EPOCHS, MINIBATCHES = 64, 4, 4


def collect(env: Line, policy: nn.Module, observation: np.ndarray) -> tuple[list[torch.Tensor], np.ndarray]:
    rows = []
    for _ in range(ROLLOUT):
        with torch.no_grad():
            logits, value = policy(torch.from_numpy(observation)).split((2, 1))
            choice = torch.distributions.Categorical(logits=logits)
            action = choice.sample()
        after, reward, terminated, truncated, _ = env.step(action.item())
        rows.append((torch.from_numpy(observation), action, choice.log_prob(action), value[0], reward))
        observation = env.reset()[0] if terminated or truncated else after
    observations, actions, log_probs, values, rewards = zip(*rows, strict=True)
    gains, gain = [], 0.0
    for reward in reversed(rewards):
        gain = reward + 0.9 * gain
        gains.insert(0, gain)
    stacked = [torch.stack(column) for column in (observations, actions, log_probs, values)]
    return [*stacked, torch.tensor(gains)], observation


def main() -> None:
    args = arguments(__doc__, steps=64 * 20)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    env, losses, ticks, env_steps = Line(discrete=True), Losses(args.losses), 0, 0
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    observation, _ = env.reset(seed=0)
    while env_steps < args.steps:
        rollout, observation = collect(env, policy, observation)
        env_steps += ROLLOUT
        for _ in range(EPOCHS):
            for rows in torch.randperm(ROLLOUT).chunk(MINIBATCHES):
                seen, action, old_log_prob, old_value, gain = (column[rows] for column in rollout)
                logits, value = policy(seen).split((2, 1), dim=1)
                ratio = (torch.distributions.Categorical(logits=logits).log_prob(action) - old_log_prob).exp()
                better = gain - old_value
                clipped = torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better)
                loss = -clipped.mean() + 0.5 * nn.functional.mse_loss(value.squeeze(1), gain)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.add(loss.item())
                ticks += 1
    report(ticks=ticks, env_steps=env_steps)


if __name__ == "__main__":
    main()
