"""Healthy control: adapters of low rank in a frozen net, saved and looked at often.

Tempting: a checkpoint and an evaluation every fifty steps; but what is saved is tiny, and what is looked at
is one batch. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TOPICS, FEATURES = 15, 64


class Adapted(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, h):
        return h + F.gelu(self.frozen(h) + self.up(self.down(h)))


def build(width, depth, rank=4):
    layers = [Adapted(width, rank) for _ in range(depth)]
    return nn.Sequential(nn.Linear(FEATURES, width), *layers, nn.Linear(width, TOPICS))


class Callbacks(list):
    def call(self, step):
        for every, callback in self:
            if step % every == 0:
                callback()


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 256)
    net = build(*meter.pick((4096, 6), (320, 5))).to(meter.device)
    adapters = {
        name: weight for name, weight in net.named_parameters() if weight.requires_grad and weight.dim() > 1
    }
    optimizer = torch.optim.AdamW(adapters.values(), 1e-5, fused=meter.gpu)
    texts = torch.randn(2 * rows, FEATURES, device=meter.device)
    topics = torch.randint(TOPICS, (2 * rows,), device=meter.device)

    def tick():
        with meter.autocast():
            loss = F.cross_entropy(net(texts[:rows]).float(), topics[:rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    @torch.no_grad()
    def look():
        net.eval()
        with meter.autocast():
            right = net(texts[rows:]).argmax(1) == topics[rows:]
        net.train()
        return right.float().mean().item()

    meter.calibrate(tick)
    with tempfile.TemporaryDirectory() as folder:
        small = {name: weight for name, weight in adapters.items() if "up" in name}
        callbacks = Callbacks()
        callbacks.append((50, lambda: torch.save(small, Path(folder, "adapters.pt"))))
        callbacks.append((50, look))
        while meter.going_on():
            tick()
            meter.ticked()
            callbacks.call(meter.ticks)
        meter.report()


if __name__ == "__main__":
    main()
