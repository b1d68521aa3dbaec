"""A video classifier: big batches of float frames are copied to the GPU from ordinary memory, and waited for.

A perfect diagnosis: host-to-device copies from pageable memory, blocking, at the line marked below; the GPU
computes nothing meanwhile. Fix: page-locked memory, and the next batch copied on a stream of its own.
"""

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F

SIDE, CLIPS = 192, 64


class ClipNet(nn.Module):
    """Averages the frames of a clip in groups, then a plain stack of convolutions."""

    def __init__(self, width, depth, small):
        super().__init__()
        self.small = small
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.rest = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.classes = nn.Linear(width, 16)

    def forward(self, frames):
        x = F.adaptive_avg_pool2d(frames.unflatten(0, (CLIPS, -1)).mean(1), self.small)
        x = self.first(x.contiguous(memory_format=torch.channels_last))
        for layer in self.rest:
            x = x + F.relu(layer(x))
        return self.classes(x.mean((2, 3)))


def copied_ahead(batches, device):
    """Each batch is on its way while the one before is trained on."""
    side, ahead = torch.cuda.Stream(), None
    for batch in batches:
        with torch.cuda.stream(side):
            coming = batch.to(device, non_blocking=True)
        if ahead is not None:
            yield ahead
        torch.cuda.current_stream().wait_stream(side)
        coming.record_stream(torch.cuda.current_stream())
        ahead = coming


def forever(videos):
    while True:
        yield from videos


def main():
    meter = Meter(__doc__)
    model = ClipNet(*meter.pick((256, 10, 64), (8, 2, 16))).to(meter.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    labels = torch.randint(0, 16, (CLIPS,), device=meter.device)

    def step(frames):
        with meter.autocast():
            loss = F.cross_entropy(model(frames), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    few = torch.rand(CLIPS, 3, meter.pick(SIDE, 16), meter.pick(SIDE, 16))
    on_device = few.to(meter.device)
    meter.calibrate(lambda: step(on_device))
    group_s = max(meter.timed_s(lambda: few.to(meter.device)), 1e-4)
    groups = min(max(1, round(meter.added_s / group_s)), meter.pick(24, 2))
    videos = [few.repeat(groups, 1, 1, 1) for _ in range(3)]
    if meter.gpu and not meter.sick:
        ready = copied_ahead(forever([video.pin_memory() for video in videos]), meter.device)
        while meter.going_on():
            step(next(ready))
            meter.ticked()
    for video in forever(videos):
        if not meter.going_on():
            break
        frames = video.to(meter.device)  # planted
        step(frames)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
