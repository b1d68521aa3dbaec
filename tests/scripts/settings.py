"""A training with flags and a configuration of all sorts: live ones, dead ones, and one that is clamped.

`--config` is a JSON file: `lr` is read, `momentum` is not.
"""

import argparse
import json

import torch
from tiny_job import Losses, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--num-workers", type=int, default=0, help="at most one is used")
    parser.add_argument("--prefetch-factor", type=int, default=2, help="never read")
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--depth", type=int, default=1, help="never read")
    parser.add_argument("--config")
    parser.add_argument("--losses")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = json.load(open(args.config)) if args.config else {}  # noqa: SIM115
    inputs = torch.randn(64, 4)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=min(1, args.num_workers))
    model = nn.Sequential(nn.Linear(4, args.width), nn.Dropout(0.1), nn.Linear(args.width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=config.get("lr", 0.01))
    losses, ticks = Losses(args.losses), 0
    for _ in range(EPOCHS):
        for batch, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), target)
            loss.backward()
            optimizer.step()
            losses.add(loss.item())
            ticks += 1
    report(ticks=ticks)


if __name__ == "__main__":
    main()
