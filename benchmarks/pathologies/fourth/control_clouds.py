"""Healthy control: point clouds from a loader with enough workers, which are kept, and pinned memory.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = 16


class Clouds(Dataset):
    def __init__(self, count, points):
        self.count, self.points = count, points

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng, kind = np.random.default_rng(index), index % KINDS
        cloud = rng.standard_normal((self.points, 3), dtype=np.float32)
        cloud[:, 0] *= 1 + kind / 4
        turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        return cloud @ turn.astype(np.float32), kind


class DeepSets(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(3, width)
        self.each = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.all = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.kind = nn.Linear(width, KINDS)

    def forward(self, cloud):
        h = self.enter(cloud)
        for each, whole in zip(self.each, self.all, strict=True):
            h = h + F.gelu(each(h) + whole(h.mean(1, keepdim=True)))
        return self.kind(h.amax(1))


def forever(loader):
    while True:
        yield from loader


def main():
    meter = Meter(__doc__)
    batch, points = meter.pick((32, 1024), (8, 256))
    net = DeepSets(*meter.pick((2048, 5), (128, 3))).to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-4, fused=meter.gpu)

    def learn(clouds, kinds):
        clouds, kinds = (t.to(meter.device, non_blocking=True) for t in (clouds, kinds))
        with meter.autocast():
            loss = F.cross_entropy(net(clouds), kinds)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    loader = DataLoader(
        Clouds(300 * batch, points),
        batch_size=batch,
        shuffle=True,
        drop_last=True,
        num_workers=meter.pick(6, 1),
        pin_memory=meter.gpu,
        persistent_workers=True,
        prefetch_factor=4,
    )
    stream = forever(loader)
    meter.calibrate(lambda: learn(*next(stream)))
    while meter.going_on():
        learn(*next(stream))
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
