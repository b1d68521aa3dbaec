"""Ships at sea, segmented; copy-paste augmentation puts ships from a bank onto empty water.

The bank holds a lock, which some systems cannot send to a worker, so the loader got none. How many ships
are pasted is the dose. A perfect diagnosis: the batches are made by the training thread, for which the GPU
waits (the loader marked below). Fix: workers, as processes that are forked take the lock along.
"""

import threading

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ShipBank:
    """Cut-outs with soft edges; two readers must not turn the same one at once."""

    def __init__(self, count, size):
        rng = np.random.default_rng(0)
        self.lock = threading.Lock()
        self.ships = rng.integers(0, 256, (count, 3, size, size), np.uint8)
        ramp = np.minimum(np.arange(size), np.arange(size)[::-1]) / (size / 2)
        self.alpha = np.minimum(2 * np.minimum.outer(ramp, ramp), 1).astype(np.float32)

    def pick(self, rng):
        with self.lock:
            turns = int(rng.integers(4))
            return np.rot90(self.ships[rng.integers(len(self.ships))], turns, (1, 2)), self.alpha


class CopyPaste:
    def __init__(self, bank, ships):
        self.bank, self.ships = bank, ships

    def __call__(self, chip, target, rng):
        for _ in range(self.ships):
            ship, alpha = self.bank.pick(rng)
            size = alpha.shape[0]
            top, left = rng.integers(0, chip.shape[1] - size, 2)
            window = (slice(top, top + size), slice(left, left + size))
            water = chip[:, *window]
            chip[:, *window] = water + alpha * (ship.astype(np.float32) - water)
            target[window] |= alpha > 0.5
        return chip, target


class Harbour(Dataset):
    def __init__(self, side, paste):
        self.paste = paste
        self.chips = np.random.default_rng(1).integers(0, 256, (64, 3, side, side), np.uint8)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        chip = self.chips[index % len(self.chips)].copy()
        return self.paste(chip, np.zeros(chip.shape[1:], bool), np.random.default_rng(index))


class ShipNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.mask = nn.ConvTranspose2d(width, 1, 4, stride=4)

    def forward(self, chips):
        h = self.stem(chips)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.mask(h)[:, 0].float()


def loader_of(meter, harbour, batch, workers):
    return DataLoader(harbour, batch, num_workers=workers, pin_memory=meter.gpu)  # planted


def ships_taking(meter, bank, side, wanted_s):
    none, some = (Harbour(side, CopyPaste(bank, ships)) for ships in (0, 20))
    none_s, some_s = (meter.timed_s(lambda h=harbour: h[7], calls=60) for harbour in (none, some))
    return max(1, round((wanted_s - none_s) * 20 / (some_s - none_s)))


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (8, 32))
    net = ShipNet(*meter.pick((384, 7), (64, 6))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(chips, targets):
        chips, targets = (part.to(meter.device, non_blocking=True).float() for part in (chips, targets))
        chips = chips.div_(255).contiguous(memory_format=torch.channels_last)
        with meter.autocast():
            scores = net(chips)
        loss = F.binary_cross_entropy_with_logits(scores, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    sea = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    blank = blanks(meter, sea, torch.zeros(batch, side, side, dtype=torch.bool))
    meter.calibrate(lambda: learn(*blank))
    bank = ShipBank(50, meter.pick(24, 10))
    ships = ships_taking(meter, bank, side, meter.host_s / batch) if meter.dose else 1
    workers = 0 if meter.sick else meter.pick(10, 1)
    stream = iter(loader_of(meter, Harbour(side, CopyPaste(bank, ships)), batch, workers))
    learn(*next(stream))
    while meter.going_on():
        with meter.injecting():
            pasted = next(stream)
        learn(*pasted)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
