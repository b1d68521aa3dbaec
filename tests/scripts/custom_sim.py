"""An environment that is not Gymnasium's: class Sim with a method step, 2 ms of pure Python work each.

Tick: an optimizer step, one for each simulator step. The env phase is seen only when the user names
`custom_sim:Sim.step` (or `__main__:Sim.step`).
"""

import time

import torch
from tiny_job import Losses, arguments, report
from torch import nn

STEP_WORK_S = 0.002


class Sim:
    def __init__(self) -> None:
        self.place = 1.0

    def step(self, push: float) -> tuple[float, float]:
        end = time.perf_counter() + STEP_WORK_S
        while time.perf_counter() < end:  # busy: the work a simulator in Python would do
            pass
        self.place = 0.95 * self.place + 0.1 * push
        return self.place, -abs(self.place)


def main() -> None:
    args = arguments(__doc__, steps=500)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    sim, place, losses = Sim(), 1.0, Losses(args.losses)
    for _ in range(args.steps):
        choice = torch.distributions.Categorical(logits=policy(torch.tensor([place])))
        action = choice.sample()
        place, reward = sim.step(2.0 * action.item() - 1.0)
        optimizer.zero_grad()
        loss = -choice.log_prob(action) * reward
        loss.backward()
        optimizer.step()
        losses.add(loss.item())
    report(ticks=args.steps, env_steps=args.steps)


if __name__ == "__main__":
    main()
