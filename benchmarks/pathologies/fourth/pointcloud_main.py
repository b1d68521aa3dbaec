"""PointNet on scanned shapes; the training process itself thins each cloud to its farthest points.

How many anchors are looked for is the dose. A perfect diagnosis: the training makes its own batches, the
loader marked below has no workers, and the GPU waits. Fix: eight workers.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS, SCANNED = 40, 2048


def farthest_points(cloud, count):
    chosen, far = [0], np.full(len(cloud), np.inf, np.float32)
    for _ in range(count):
        far = np.minimum(far, ((cloud - cloud[chosen[-1]]) ** 2).sum(1))
        chosen.append(int(far.argmax()))
    return chosen


class ScannedShapes(Dataset):
    def __init__(self, points, anchors):
        self.points, self.anchors = points, min(anchors, points - 1)

    def __len__(self):
        return 500_000

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        cloud = rng.standard_normal((SCANNED, 3), dtype=np.float32)
        cloud[:, index % 3] *= 1 + index % KINDS / 10
        chosen = farthest_points(cloud, self.anchors)
        rest = rng.integers(0, SCANNED, self.points - len(chosen))
        return cloud[np.concatenate([chosen, rest])], index % KINDS


class PointNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.lift = nn.Linear(3, width)
        self.shared = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.kind = nn.Sequential(nn.Linear(width, width // 4), nn.ReLU(), nn.Linear(width // 4, KINDS))

    def forward(self, clouds):
        h = F.relu(self.lift(clouds))
        for layer in self.shared:
            h = F.relu(layer(h))
        return self.kind(h.amax(1))


def anchor_s(meter):
    cloud = np.random.default_rng(0).standard_normal((SCANNED, 3), dtype=np.float32)
    return meter.timed_s(lambda: farthest_points(cloud, 100)) / 100


def main():
    meter = Meter(__doc__)
    batch, points = meter.pick((32, 1024), (8, 128))
    net = PointNet(*meter.pick((2048, 4), (192, 3))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=meter.gpu)

    def train(clouds, kinds):
        clouds = clouds.to(meter.device, non_blocking=True)
        kinds = kinds.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(net(clouds), kinds)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, points, 3), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: train(*blank))
    anchors = round(meter.host_s / batch / anchor_s(meter))
    loader = DataLoader(
        ScannedShapes(points, anchors),
        batch_size=batch,
        shuffle=True,
        pin_memory=meter.gpu,
        num_workers=0 if meter.sick else meter.pick(8, 1),  # planted
    )
    batches = iter(loader)
    train(*next(batches))
    while meter.going_on():
        train(*next(batches))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
