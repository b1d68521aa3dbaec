"""Gradient accumulation: four micro-batches and four backwards for each optimizer step.

Tick: an optimizer step. Iteration: one tick, which takes four batches.
"""

import torch
from tiny_job import Losses, arguments, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MICRO_BATCHES = 4


def main() -> None:
    args = arguments(__doc__, steps=150)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(512, 16)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = Losses(args.losses)
    steps = backwards = 0
    while steps < args.steps:
        for batch, target in loader:
            loss = nn.functional.mse_loss(model(batch), target) / MICRO_BATCHES
            loss.backward()
            backwards += 1
            if backwards % MICRO_BATCHES:
                continue
            optimizer.step()
            optimizer.zero_grad()
            losses.add(loss.item())
            steps += 1
            if steps == args.steps:
                break
    report(ticks=steps, backwards=backwards, samples=backwards * 8, env_steps=0)


if __name__ == "__main__":
    main()
