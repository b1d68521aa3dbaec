"""Two ranks that end with a barrier; one of them runs out of memory, the other waits for it."""

import os
import time

import torch
import torch.multiprocessing as mp


def work(rank):
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), "2"
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    if rank == 1:
        torch.empty(2**46)
    time.sleep(1000)


if __name__ == "__main__":
    ranks = [mp.get_context("spawn").Process(target=work, args=(rank,)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:  # as some trainers do: the first is waited for first
        rank.join()
