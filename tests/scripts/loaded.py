"""A DataLoader with workers: slow samples, a collate of its own, an epoch whose last batch is not full.

`loaded.py METHOD WORKERS`, METHOD one of fork, spawn, forkserver. Prints what was fetched.
"""

import sys
import time

import torch
from tiny_job import report
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES, BATCH, EPOCHS = 22, 4, 2


class Slow(Dataset):
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)  # a wait, not work: storage
        return torch.full((3,), float(index))


def collate(batch: list[torch.Tensor]) -> torch.Tensor:
    time.sleep(0.001)
    return torch.stack(batch)


def main() -> None:
    torch.set_num_threads(1)
    method, workers = sys.argv[1], int(sys.argv[2])
    context = method if workers else None
    loader = DataLoader(
        Slow(), BATCH, num_workers=workers, collate_fn=collate, multiprocessing_context=context
    )
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    ticks = samples = 0
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            ticks += 1
            samples += len(batch)
    report(ticks=ticks, samples=samples)


if __name__ == "__main__":
    main()
