"""Healthy control: which well will run dry? Tables that fit into memory, by a loader without workers.

Tempting: `num_workers=0`, so the training thread loads; but whole batches are cut out at once, in a fraction
of what the GPU has queued. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

WELLS, COLUMNS = 65_536, 24


class Wells(Dataset):
    """Takes the numbers of a whole batch."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.columns = rng.standard_normal((WELLS, COLUMNS), dtype=np.float32)
        self.dry = rng.integers(0, 2, WELLS).astype(np.float32)

    def __len__(self):
        return WELLS

    def __getitem__(self, rows):
        return torch.from_numpy(self.columns[rows]), torch.from_numpy(self.dry[rows])


class WellNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.dry = nn.Linear(COLUMNS, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, columns):
        h = self.enter(columns)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.dry(h).float()[:, 0]


def endless(loader):
    while True:
        yield from loader


def main():
    meter = Meter(__doc__)
    batch = meter.pick(8192, 64)
    net = WellNet(*meter.pick((4096, 6), (256, 5))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(columns, dry):
        columns, dry = (part.to(meter.device, non_blocking=True) for part in (columns, dry))
        with meter.autocast():
            score = net(columns)
        loss = F.binary_cross_entropy_with_logits(score, dry)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, COLUMNS), torch.zeros(batch))
    meter.calibrate(lambda: learn(*blank))
    wells = Wells()
    rows = BatchSampler(RandomSampler(wells), batch, drop_last=True)
    loader = DataLoader(wells, batch_size=None, sampler=rows, num_workers=0, pin_memory=meter.gpu)
    stream = endless(loader)
    while meter.going_on():
        learn(*next(stream))
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
