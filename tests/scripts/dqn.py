"""DQN: trains every 4 env steps, copies the target network every 1000.

Tick: an optimizer step. Iteration: 4 env steps and one tick; the copy is a rare event with a period.
`--steps` counts env steps, the first 100 without training.
"""

import copy

import numpy as np
import torch
from tiny_job import Losses, arguments, report
from torch import nn
from toy_env import Line

WARMUP, TRAIN_EVERY, COPY_EVERY, BATCH = 100, 4, 1000, 32


def main() -> None:
    args = arguments(__doc__, steps=4000)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env, rows, losses = Line(discrete=True), [], Losses(args.losses)
    online = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    observation, _ = env.reset(seed=0)
    ticks = copies = 0
    for env_step in range(1, args.steps + 1):
        if rng.random() < 0.1:
            action = int(rng.integers(2))
        else:
            with torch.no_grad():
                action = int(online(torch.from_numpy(observation)).argmax())
        after, reward, terminated, truncated, _ = env.step(action)
        rows.append((observation, action, np.float32(reward), after, np.float32(terminated)))
        observation = env.reset()[0] if terminated or truncated else after
        if env_step > WARMUP and env_step % TRAIN_EVERY == 0:
            picked = [rows[i] for i in rng.integers(len(rows), size=BATCH)]
            now, did, gain, later, fell = (torch.as_tensor(np.stack(c)) for c in zip(*picked, strict=True))
            with torch.no_grad():
                goal = gain + 0.9 * (1 - fell) * target(later).max(dim=1).values
            loss = nn.functional.smooth_l1_loss(online(now).gather(1, did[:, None]).squeeze(1), goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.add(loss.item())
            ticks += 1
        if env_step % COPY_EVERY == 0:
            target.load_state_dict(online.state_dict())
            copies += 1
    report(ticks=ticks, target_copies=copies, env_steps=args.steps)


if __name__ == "__main__":
    main()
