"""An autoencoder of MRI scans, which a helper moves to the GPU from ordinary memory in every step.

How many slices a scan has is the dose. A perfect diagnosis: large blocking copies from pageable memory (the
helper marked below), for which the GPU waits. Fix: pinned scans, and the next one copied beside the work.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PATCH = 256


def to_device(batch, device):
    return {key: value.to(device) for key, value in batch.items()}  # planted


class Scans:
    """A small cohort in memory, patient by patient without end."""

    def __init__(self, slices, side, pinned=False):
        self.patients = []
        for n in range(3):
            scan = torch.linspace(0, 1 + n, slices * side * side).view(slices, side, side)
            patient = {"scan": scan, "age": torch.full((1,), 40.0 + n)}
            self.patients.append({k: v.pin_memory() for k, v in patient.items()} if pinned else patient)

    def __iter__(self):
        while True:
            yield from self.patients


def moved(scans, device):
    for batch in scans:
        yield to_device(batch, device)


def moved_ahead(scans, device):
    """The next patient is copied on a stream of its own."""
    side, waiting = torch.cuda.Stream(), None
    for batch in scans:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            coming = {key: value.to(device, non_blocking=True) for key, value in batch.items()}
        if waiting is not None:
            yield waiting
        torch.cuda.current_stream().wait_stream(side)
        for tensor in coming.values():
            tensor.record_stream(torch.cuda.current_stream())
        waiting = coming


class Autoencoder(nn.Module):
    def __init__(self, width, depth, code=64):
        super().__init__()
        self.encoder, self.decoder = (
            nn.ModuleList(nn.Linear(width, width) for _ in range(depth)) for _ in range(2)
        )
        self.enter, self.squeeze = nn.Linear(PATCH + 1, width), nn.Linear(width, code)
        self.widen, self.leave = nn.Linear(code, width), nn.Linear(width, PATCH)

    def forward(self, patches, age):
        h = self.enter(torch.cat([patches, age.expand(len(patches), 1)], 1))
        for layer in self.encoder:
            h = h + F.silu(layer(h))
        h = self.widen(self.squeeze(h))
        for layer in self.decoder:
            h = h + F.silu(layer(h))
        return self.leave(h)


def main():
    meter = Meter(__doc__)
    side, rows = meter.pick((512, 8192), (64, 32))
    net = Autoencoder(*meter.pick((4096, 3), (64, 1))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=meter.gpu)

    def learn(batch):
        patches = batch["scan"].view(-1, PATCH)
        patches = patches[torch.randint(len(patches), (rows,), device=meter.device)]
        with meter.autocast():
            drawn = net(patches, batch["age"] / 100)
        loss = F.mse_loss(drawn.float(), patches)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    here = to_device(next(iter(Scans(2, side))), meter.device)
    meter.calibrate(lambda: learn(here))
    slices = 2
    if meter.dose:
        probe = next(iter(Scans(32, side)))["scan"]
        once_s = meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5)
        slices = max(2, round(32 * meter.added_s / once_s))
    ahead = meter.gpu and not meter.sick
    batches = (moved_ahead if ahead else moved)(Scans(slices, side, pinned=ahead), meter.device)
    while meter.going_on():
        learn(next(batches))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
