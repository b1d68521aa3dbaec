"""SAC-like: three optimizers; critic each env step, actor and temperature every second one.

Tick: a critic step; `--steps` counts env steps, the first 64 without training. Iteration: two ticks.
"""

import numpy as np
import torch
from tiny_job import Losses, arguments, report
from torch import nn
from toy_env import Line

WARMUP, ACTOR_DELAY, BATCH = 64, 2, 32


def net(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 1))


def descend(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> float:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main() -> None:
    args = arguments(__doc__, steps=464)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    actor, critic, log_alpha = net(2), net(3), torch.zeros(1, requires_grad=True)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)
    env, rows, losses = Line(discrete=False), [], Losses(args.losses)
    observation, _ = env.reset(seed=0)
    critic_steps = actor_steps = 0
    for env_step in range(1, args.steps + 1):
        with torch.no_grad():
            action = torch.tanh(actor(torch.from_numpy(observation)) + torch.randn(1)).numpy()
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append(np.concatenate((observation, action, [reward], after)).astype(np.float32))
        observation = env.reset()[0] if terminated or truncated else after
        if env_step <= WARMUP:
            continue
        picked = torch.from_numpy(np.stack([rows[i] for i in rng.integers(len(rows), size=BATCH)]))
        now, did, gain, later = picked[:, :2], picked[:, 2:3], picked[:, 3:4], picked[:, 4:]
        with torch.no_grad():
            goal = gain + 0.9 * critic(torch.cat((later, torch.tanh(actor(later))), dim=1))
        critic_loss = nn.functional.mse_loss(critic(torch.cat((now, did), dim=1)), goal)
        losses.add(descend(critic_loss, critic_optimizer))
        critic_steps += 1
        if critic_steps % ACTOR_DELAY == 0:
            chosen = torch.tanh(actor(now))
            spread = log_alpha.detach().exp() * chosen.square()
            descend((spread - critic(torch.cat((now, chosen), dim=1))).mean(), actor_optimizer)
            descend((log_alpha * (chosen.detach().square().mean() - 0.5)).sum(), alpha_optimizer)
            actor_steps += 1
    report(ticks=critic_steps, actor_steps=actor_steps, env_steps=args.steps)


if __name__ == "__main__":
    main()
