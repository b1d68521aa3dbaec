"""Healthy control: smoke over forests in pictures from towers, sent to the GPU in large batches.

Tempting: tens of megabytes are copied in every step; but from pinned memory, on a stream of their own,
while the batch before them is learned. A perfect diagnosis: healthy, nothing to mend. The dose is taken and
does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class Towers:
    """Two batches in turn, in the memory a good loader would give them in."""

    def __init__(self, meter, batch, side):
        views = [torch.full((batch, 3, side, side), 80 * n, dtype=torch.uint8) for n in (1, 2)]
        self.views = [view.pin_memory() for view in views] if meter.gpu else views
        self.device, self.number, self.side = meter.device, 0, torch.cuda.Stream() if meter.gpu else None
        self.send()

    def send(self):
        self.number += 1
        view = self.views[self.number % 2]
        if self.side is None:
            self.coming = view
            return
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.coming = view.to(self.device, non_blocking=True)

    def next(self):
        view = self.coming
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)
            view.record_stream(torch.cuda.current_stream())
        self.send()
        return view


class SmokeNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 8, stride=8)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.smoke = nn.Conv2d(width, 1, 1)

    def forward(self, views):
        h = self.stem(views)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.smoke(h)[:, 0].float()


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((32, 512), (4, 128))
    channels = {"memory_format": torch.channels_last}
    net = SmokeNet(*meter.pick((256, 8), (48, 5))).to(meter.device, **channels)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
    smoke = torch.rand(batch, side // 8, side // 8, device=meter.device)
    kind = meter.pick(torch.bfloat16, torch.float32)
    towers = Towers(meter, batch, side)

    def tick():
        views = towers.next().to(kind, **channels).div_(255)
        with meter.autocast():
            scores = net(views)
        loss = F.binary_cross_entropy_with_logits(scores, smoke)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(tick)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
