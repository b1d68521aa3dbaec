"""Two ranks under torchrun: torchrun --nproc_per_node=2 ddp.py. Gloo, on the CPU.

Tick: an optimizer step of each rank. Losses go to FILE.rank0 and FILE.rank1.
"""

import os
import time

import torch
import torch.distributed as dist
from tiny_job import Losses, arguments, report
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank: int, steps: int, losses: Losses) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    for _ in range(steps):
        inputs = torch.randn(32, 16)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.add(loss.item())


def leave() -> None:
    """A thread of gloo's that lets go of its last reduction only while Python ends aborts the process (torch
    2.13: DDP keeps the group, so destroying it does not end the thread). It needs a moment before that."""
    dist.destroy_process_group()
    time.sleep(0.3)


def main() -> None:
    args = arguments(__doc__, steps=100)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    train(rank, args.steps, Losses(args.losses and f"{args.losses}.rank{rank}"))
    report(rank=rank, ticks=args.steps, env_steps=0)
    leave()


if __name__ == "__main__":
    main()
