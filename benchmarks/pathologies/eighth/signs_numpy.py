"""Traffic signs with augmentation in NumPy; an iterator of one's own picks, bends and stacks them.

How often a sign is blurred, for bad weather, is the dose. A perfect diagnosis: the batches are made by the
training thread, for which the GPU waits (marked below). Fix: a loader with workers does it.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, SIGNS = 32, 43


class Augment:
    """Shifts, light and weather."""

    def __init__(self, blurs):
        self.blurs = blurs

    def __call__(self, sign, rng):
        sign = np.roll(sign, rng.integers(-3, 4, 2), (1, 2)) * np.float32(rng.uniform(0.7, 1.3))
        for _ in range(self.blurs):
            sign = 0.5 * sign + 0.25 * (np.roll(sign, 1, 1) + np.roll(sign, 1, 2))
        return sign


class Signs(Dataset):
    def __init__(self, augment):
        self.augment = augment
        self.photos = np.random.default_rng(0).random((200, 3, SIDE, SIDE), dtype=np.float32)

    def __len__(self):
        return 900_000

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        return self.augment(self.photos[index % 200], rng), index % SIGNS


class BatchIterator:
    def __init__(self, signs, batch, pinned):
        self.signs, self.batch, self.pinned, self.at = signs, batch, pinned, 0

    def __iter__(self):
        return self

    def __next__(self):
        pairs = [self.signs[n] for n in range(self.at, self.at + self.batch)]  # planted
        self.at = (self.at + self.batch) % 800_000
        signs, kinds = zip(*pairs, strict=True)
        out = [torch.from_numpy(np.stack(signs)), torch.tensor(kinds)]
        return [part.pin_memory() for part in out] if self.pinned else out


class SignNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 2, stride=2)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.kind = nn.Linear(width, SIGNS)

    def forward(self, signs):
        h = self.stem(signs)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.kind(h.mean((2, 3))).float()


def blurs_taking(meter, wanted_s):
    rng, sign = np.random.default_rng(0), np.zeros((3, SIDE, SIDE), np.float32)
    none_s, some_s = (meter.timed_s(lambda n=n: Augment(n)(sign, rng), calls=50) for n in (0, 20))
    return max(0, round((wanted_s - none_s) * 20 / (some_s - none_s)))


def main():
    meter = Meter(__doc__)
    batch = meter.pick(256, 8)
    net = SignNet(*meter.pick((320, 7), (48, 5))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(signs, kinds):
        signs = signs.to(meter.device, non_blocking=True, memory_format=torch.channels_last)
        kinds = kinds.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(net(signs), kinds)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, 3, SIDE, SIDE), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    signs = Signs(Augment(blurs_taking(meter, meter.host_s / batch) if meter.dose else 0))
    if meter.sick:
        stream = BatchIterator(signs, batch, meter.gpu)
    else:
        stream = iter(DataLoader(signs, batch, num_workers=meter.pick(10, 1), pin_memory=meter.gpu))
    learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            pair = next(stream)
        learn(*pair)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
