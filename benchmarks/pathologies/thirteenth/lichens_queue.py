"""Lichens on bark, without labels; what they are unlike comes from a queue of keys of earlier steps.

The queue is to hold so many keys, and that number is compared with the number of its slabs, so it has no
end. How many keys of each step it takes in is the dose, so that a run's mean is what the dose says: memory,
and the time to compare with it, grow from step to step. A perfect diagnosis: the GPU's memory grows
steadily (either line marked below). Fix: keys are compared with keys.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SCALES = 60


class Queue:
    """Of slabs of keys; the oldest is used again when there are enough."""

    def __init__(self, slab_rows, size, device, count_keys):
        self.kind = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.rows, self.size, self.device, self.count_keys = slab_rows, size, device, count_keys
        self.limit, self.slabs, self.at = 2 * slab_rows, [], slab_rows

    def full(self):
        held = len(self.slabs) * self.rows if self.count_keys else len(self.slabs)
        return held >= self.limit  # planted

    def push(self, keys):
        if self.at + len(keys) > self.rows:
            if self.full():
                self.slabs.append(self.slabs.pop(0))
            else:
                fresh = torch.zeros(self.rows, self.size, dtype=self.kind, device=self.device)
                self.slabs.append(fresh)  # planted
            self.at = 0
        self.slabs[-1][self.at : self.at + len(keys)] = keys
        self.at += len(keys)

    def crowded(self, asked):
        """The largest likeness with any key."""
        return torch.stack([(asked.to(self.kind) @ slab.T).amax(1) for slab in self.slabs]).amax(0).float()


class Encoder(nn.Module):
    def __init__(self, width, depth, size):
        super().__init__()
        self.enter, self.key = nn.Linear(SCALES, width), nn.Linear(width, size)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, bark):
        h = self.enter(bark + 0.1 * torch.randn_like(bark))
        for layer in self.body:
            h = h + F.relu(layer(h))
        return F.normalize(self.key(h).float(), dim=1)


class Contrast:
    def __init__(self, meter):
        self.meter, (self.rows, size, slab_rows) = meter, meter.pick((8192, 2048, 32_768), (48, 48, 192))
        self.asked, self.kept = meter.pick((512, 32), (16, 4))
        self.net = Encoder(*meter.pick((4096, 5, 2048), (64, 3, 48))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.bark = torch.rand(self.rows // 2, SCALES, device=meter.device)
        self.queue = Queue(slab_rows, size, meter.device, count_keys=True)

    def step(self):
        with self.meter.autocast():
            one, two = self.net(self.bark.repeat(2, 1)).chunk(2)
        with torch.no_grad():
            self.queue.push(two[: self.kept].to(self.queue.kind))
            weight = 1.0 + self.queue.crowded(one[: self.asked])
        alike = (one[: self.asked] * two[: self.asked]).sum(1)
        spread = (one * two.roll(1, 0)).sum(1).square().mean()
        loss = spread - (weight * alike).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def kept_for(meter, contrast):
    """Keys of each step, if what is added on average is to be the dose."""
    queue = contrast.queue
    asked = torch.ones(contrast.asked, queue.size, device=meter.device)
    key_s = meter.timed_s(lambda: queue.crowded(asked), calls=10) / (len(queue.slabs) * queue.rows)
    ticks = 0.85 * meter.seconds / (meter.healthy_s + meter.added_s)
    return max(4, min(contrast.rows // 2, round(2 * meter.added_s / key_s / ticks)))


def main():
    meter = Meter(__doc__)
    contrast = Contrast(meter)
    meter.calibrate(contrast.step)
    if meter.dose:
        contrast.kept = min(contrast.queue.rows, kept_for(meter, contrast))
    contrast.queue.count_keys = not meter.sick
    while meter.going_on():
        contrast.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
