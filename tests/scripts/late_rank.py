"""Two ranks under torchrun, the second of which reads its batches slowly. Gloo, on the CPU.

Tick: an optimizer step of each rank. The late rank sleeps 30 ms in its data set; `--steps` as in ddp.py.
"""

import os
import time

import torch
import torch.distributed as dist
from ddp import leave
from tiny_job import arguments, report
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

LATE_S = 0.03


class Numbers(Dataset):
    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rank == 1:
            time.sleep(LATE_S)
        return torch.full((16,), float(index))


def train(rank: int, steps: int) -> None:
    torch.set_num_threads(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for inputs in DataLoader(Numbers(rank, steps), batch_size=1):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def main() -> None:
    args = arguments(__doc__, steps=100)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    train(rank, args.steps)
    report(rank=rank, ticks=args.steps, env_steps=0)
    leave()


if __name__ == "__main__":
    main()
