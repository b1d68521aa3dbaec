"""Healthy control: power of wind turbines, by a mixture density net, with a lot of printing.

Tempting: the loss is read, printed and written to a file as JSON, every tenth step; it takes no time to
speak of. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import collections
import json
import math
import tempfile
import time

import torch
from stopwatch import Meter
from torch import nn

MEASURED, MIXED, BATCH, LOG_EVERY = 12, 5, 256, 10


class MixtureDensity(nn.Module):
    def __init__(self, hidden=560):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(MEASURED, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
        )
        self.heads = nn.ModuleDict({name: nn.Linear(hidden, MIXED) for name in ("weight", "mean", "scale")})

    def forward(self, measured):
        h = self.body(measured)
        return {name: head(h) for name, head in self.heads.items()}


def surprise(mixture, power):
    scale = nn.functional.softplus(mixture["scale"]) + 1e-2
    away = (power[:, None] - mixture["mean"]) / scale
    each = -0.5 * away.square() - scale.log() - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(each + mixture["weight"].log_softmax(1), 1).mean()


class Progress:
    def __init__(self, file):
        self.file, self.recent, self.began = file, collections.deque(maxlen=20), time.time()

    def __call__(self, step, loss, lr):
        self.recent.append(loss)
        mean = sum(self.recent) / len(self.recent)
        print(
            f"[{time.time() - self.began:.2f}s] step {step:>6}  loss {loss:.4f}  mean {mean:.4f}  lr {lr:.1e}"
        )
        self.file.write(json.dumps({"step": step, "loss": loss, "mean": mean, "lr": lr}) + "\n")
        self.file.flush()


def main():
    meter = Meter(__doc__)
    net = MixtureDensity().to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    measured = torch.rand(4 * BATCH, MEASURED, device=meter.device)
    power = measured[:, 0] ** 3 + 0.1 * measured[:, 1]

    def step():
        picked = torch.randint(len(measured), (BATCH,), device=meter.device)
        loss = surprise(net(measured[picked]), power[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step()
        return loss

    meter.calibrate(step)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        progress = Progress(file)
        while meter.going_on():
            loss = step()
            meter.ticked()
            if meter.ticks % LOG_EVERY == 0:
                progress(meter.ticks, loss.item(), warm.get_last_lr()[0])
        meter.report()


if __name__ == "__main__":
    main()
