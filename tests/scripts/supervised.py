"""Supervised: one batch, one backward, one optimizer step.

Tick: an optimizer step. Iteration: one tick.
"""

import torch
from tiny_job import Losses, arguments, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    args = arguments(__doc__, steps=300)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(512, 16)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = Losses(args.losses)
    step = 0
    while step < args.steps:
        for batch, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), target)
            loss.backward()
            optimizer.step()
            losses.add(loss.item())
            step += 1
            if step == args.steps:
                break
    report(ticks=step, samples=step * 32, env_steps=0)


if __name__ == "__main__":
    main()
