"""torch without training: forward passes only, no optimizer ever steps."""

import torch
from tiny_job import Losses, arguments, report
from torch import nn


def main() -> None:
    args = arguments(__doc__, steps=300)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
    losses = Losses(args.losses)
    with torch.no_grad():
        for _ in range(args.steps):
            losses.add(model(torch.randn(256, 64)).square().mean().item())
    report(ticks=0, env_steps=0)


if __name__ == "__main__":
    main()
