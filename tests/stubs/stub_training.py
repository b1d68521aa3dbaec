"""A training with the stub torch: `python stub_training.py STEPS [RANK WORLD]`. Runs on Python 3.9."""

import sys

import torch
import torch.distributed

BATCH = 4


def train(steps, rank=None, world=None):
    if rank is not None:
        torch.distributed.init_process_group(int(rank), int(world))
    model, optimizer = torch.nn.Linear(), torch.optim.SGD()
    loader = torch.utils.data.DataLoader(list(range(BATCH * steps)), BATCH)
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch)
        torch.autograd.backward(loss)
        optimizer.step()
    if rank is not None:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    train(int(sys.argv[1]), *sys.argv[2:])
