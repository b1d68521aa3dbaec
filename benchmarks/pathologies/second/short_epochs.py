"""Tabular data, an MLP, and epochs of a few batches: the loader's workers are started anew for each.

A perfect diagnosis: the waiting is at the begin of every epoch, for workers that are being started (and at
its end, for those that are being stopped): `persistent_workers` is off. Fix: `persistent_workers=True`.
"""

import time

import torch
from meter import Meter
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def mlp(inputs, width, depth):
    hidden = [piece for _ in range(depth) for piece in (nn.Linear(width, width), nn.SiLU())]
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), *hidden, nn.Linear(width, 1))


def loader_of(batches, batch, columns, meter, keep):
    table = TensorDataset(torch.randn(batches * batch, columns), torch.randn(batches * batch, 1))
    return DataLoader(
        table,
        batch_sampler=[range(start, start + batch) for start in range(0, batches * batch, batch)],
        num_workers=meter.pick(8, 2),
        pin_memory=meter.gpu,
        persistent_workers=keep,  # planted
    )


def train_epoch(meter, loader, step):
    """One pass; what passes before its first batch and after its last step is the cost of the restart."""
    edge_s = time.perf_counter()
    waiting_s = None
    for rows, target in loader:
        if waiting_s is None:
            waiting_s = time.perf_counter() - edge_s
        step(rows, target)
        meter.ticked()
        edge_s = time.perf_counter()
        if not meter.going_on():
            return
    if meter.sick:
        meter.injected_s += (waiting_s or 0.0) + time.perf_counter() - edge_s


def main():
    meter = Meter(__doc__)
    columns, batch = 64, meter.pick(4096, 128)
    model = mlp(columns, meter.pick(8192, 384), meter.pick(4, 3)).to(meter.device)
    sgd = optim.SGD(model.parameters(), lr=1e-3)

    def step(rows, target):
        rows, target = rows.to(meter.device, non_blocking=True), target.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = nn.functional.mse_loss(model(rows), target)
        sgd.zero_grad()
        loss.backward()
        sgd.step()

    still = torch.randn(batch, columns), torch.randn(batch, 1)
    healthy_s = meter.calibrate(lambda: step(*still))
    one_batch = loader_of(1, batch, columns, meter, keep=False)
    restart_s = meter.timed_s(lambda: list(one_batch), calls=2)
    batches = round(restart_s / (meter.share * healthy_s)) if meter.dose else 1000
    loader = loader_of(min(max(batches, 2), 1000), batch, columns, meter, keep=not meter.sick)
    while meter.going_on():
        train_epoch(meter, loader, step)
    meter.report()


if __name__ == "__main__":
    main()
