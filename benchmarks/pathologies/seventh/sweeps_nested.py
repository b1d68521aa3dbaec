"""Driving by laser sweeps; batches are nested dictionaries, which a helper of the trainer sends as they are.

How many points a sweep has is the dose; the net learns from some of them. A perfect diagnosis: large blocking
copies from pageable memory (marked below), for which the GPU waits. Fix: pinned batches, sent ahead on
another stream.
"""

import itertools

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FIELDS, STEERING = 48, 3


def moved(batch, device, **options):
    """Through lists and dictionaries, as deep as they go."""
    if isinstance(batch, dict):
        return {name: moved(part, device, **options) for name, part in batch.items()}
    if isinstance(batch, list):
        return [moved(part, device, **options) for part in batch]
    return batch.to(device, **options)  # planted


def tensors(batch):
    if isinstance(batch, torch.Tensor):
        yield batch
        return
    for part in batch.values() if isinstance(batch, dict) else batch:
        yield from tensors(part)


def pinned(batch):
    if isinstance(batch, dict):
        return {name: pinned(part) for name, part in batch.items()}
    return [pinned(part) for part in batch] if isinstance(batch, list) else batch.pin_memory()


def drive(points, number=0):
    """A drive: the sweeps of two scanners, and how it was steered."""
    sweeps = [torch.full((points, FIELDS), 0.1 * number + n) for n in range(2)]
    return {"scanners": sweeps, "driver": {"steering": torch.full((64, STEERING), 0.2 * number)}}


class Ahead:
    """Sends the next batch while the current one is learned from."""

    def __init__(self, batches, device):
        self.batches, self.device, self.stream = batches, device, torch.cuda.Stream()
        self.send()

    def send(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.coming = moved(next(self.batches), self.device, non_blocking=True)

    def __next__(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.coming
        for tensor in tensors(batch):
            tensor.record_stream(torch.cuda.current_stream())
        self.send()
        return batch


class Steering(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.steer = nn.Linear(2 * FIELDS, width), nn.Linear(width, STEERING)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, points):
        h = self.enter(points)
        for layer in self.body:
            h = h + F.leaky_relu(layer(h))
        return self.steer(h).float()


def main():
    meter = Meter(__doc__)
    seen = meter.pick(8192, 64)
    net = Steering(*meter.pick((4096, 5), (64, 1))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(batch):
        one, two = batch["scanners"]
        rows = torch.randint(len(one), (seen,), device=meter.device)
        with meter.autocast():
            steered = net(torch.cat([one[rows], two[rows]], 1))
        wanted = batch["driver"]["steering"].repeat(seen // 64, 1)
        loss = F.mse_loss(steered, wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    here = moved(drive(seen), meter.device)
    meter.calibrate(lambda: learn(here))
    points = seen
    if meter.dose:
        probe = drive(16 * seen)["scanners"]
        once_s = meter.timed_s(lambda: moved(probe, meter.device, copy=True), calls=5)
        points = max(seen, round(16 * seen * meter.added_s / once_s))
    drives = [drive(points, n) for n in range(3)]
    ahead = meter.gpu and not meter.sick
    drives = itertools.cycle([pinned(one) for one in drives] if ahead else drives)
    sent = Ahead(drives, meter.device) if ahead else (moved(one, meter.device) for one in drives)
    while meter.going_on():
        learn(next(sent))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
