"""Healthy control: is a heartbeat regular? A net with hooks on its layers and on its gradients, and a bar.

Tempting: forward hooks, gradient hooks, a bar of progress and records of a log; but a hook is one product,
numbers are read every hundred steps, and the log is short. A perfect diagnosis: healthy, nothing to mend.
The dose is taken and does nothing; there is no planted line.
"""

import io
import logging
import time

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LEADS, SAMPLES, RHYTHMS, BATCH, READ_EVERY = 3, 192, 5, 20, 100


class Watcher:
    """Sums of squares, as tensors; nobody waits for them."""

    def __init__(self, net):
        self.spread, self.slopes = {}, {}
        for name, layer in net.named_modules():
            if isinstance(layer, nn.Conv1d):
                layer.register_forward_hook(self.seen(name))
        for name, param in net.named_parameters():
            if param.dim() > 1:
                param.register_hook(self.slope(name))

    def seen(self, name):
        def hook(layer, inputs, output):
            self.spread[name] = output.detach().square().mean()

        return hook

    def slope(self, name):
        def hook(grad):
            self.slopes[name] = grad.norm()

        return hook

    def read(self):
        both = {**self.spread, **{f"{name}.slope": value for name, value in self.slopes.items()}}
        return dict(zip(both, torch.stack(list(both.values())).tolist(), strict=True))


class Bar:
    def __init__(self, file, every_s=0.1):
        self.file, self.every_s, self.shown_s, self.count = file, every_s, 0.0, 0

    def update(self):
        self.count += 1
        now_s = time.monotonic()
        if now_s - self.shown_s > self.every_s:
            self.shown_s = now_s
            self.file.write(f"\r{'#' * (self.count % 40):<40} {self.count}")


class Residual(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.one, self.norm = nn.Conv1d(size, size, 7, padding=3), nn.BatchNorm1d(size)
        self.other = nn.Conv1d(size, size, 7, padding=3)

    def forward(self, x):
        return F.relu(x + self.other(F.relu(self.norm(self.one(x)))))


class HeartNet(nn.Sequential):
    def __init__(self, size=48):
        super().__init__(
            nn.Conv1d(LEADS, size, 15, 4, 7),
            Residual(size),
            nn.MaxPool1d(2),
            Residual(size),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(size, RHYTHMS),
        )


def main():
    meter = Meter(__doc__)
    net = HeartNet().to(meter.device)
    watcher, bar = Watcher(net), Bar(io.StringIO())
    log, text = logging.getLogger("heart"), io.StringIO()
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(logging.StreamHandler(text))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=200_000)
    leads = torch.randn(16, BATCH, LEADS, SAMPLES, device=meter.device)
    rhythms = torch.randint(RHYTHMS, (16, BATCH), device=meter.device)

    def step():
        number = meter.ticks % 16
        loss = F.cross_entropy(net(leads[number]), rhythms[number])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cycle.step()

    meter.calibrate(step)
    while meter.going_on():
        step()
        bar.update()
        meter.ticked()
        if meter.ticks % READ_EVERY == 0:
            log.info("%d %s", meter.ticks, watcher.read())
    meter.report()


if __name__ == "__main__":
    main()
