"""Healthy control: defects of steel sheets; every step is logged as JSON, and a few sheets are tested often.

Tempting: a line in a file after each step, and a test every thirty; but the line is short and buffered, and
the test is one small batch. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does
nothing; there is no planted line.
"""

import json
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

DEFECTS, EVERY = 6, 30


class JsonLines:
    def __init__(self, path):
        self.file = path.open("w")

    def __call__(self, trainer, step):
        rate = trainer.optimizer.param_groups[0]["lr"]
        self.file.write(json.dumps({"step": step, "at": time.time(), "rate": rate}) + "\n")

    def close(self):
        self.file.close()


class SmallTest:
    def __init__(self, meter, side):
        self.meter, self.right = meter, None
        self.sheets = torch.rand(4, 1, side, side, device=meter.device)

    @torch.no_grad()
    def __call__(self, trainer, step):
        if step % EVERY == 0:
            trainer.net.eval()
            with self.meter.autocast():
                self.right = (trainer.net(self.sheets).argmax(1) == 0).float().mean()
            trainer.net.train()


def sheet_net(width, depth):
    layers = [nn.Conv2d(1, width, 4, stride=4)]
    for _ in range(depth):
        layers += [nn.GELU(), nn.Conv2d(width, width, 3, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, DEFECTS))


class Trainer:
    def __init__(self, meter):
        self.meter, (batch, self.side) = meter, meter.pick((64, 128), (8, 48))
        channels = {"memory_format": torch.channels_last}
        self.net = sheet_net(*meter.pick((384, 7), (48, 5))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.sheets = torch.rand(batch, 1, self.side, self.side, device=meter.device)
        self.defects = torch.randint(DEFECTS, (batch,), device=meter.device)

    def step(self):
        with self.meter.autocast():
            scores = self.net(self.sheets)
        loss = F.cross_entropy(scores.float(), self.defects)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def fit(self, hooks):
        while self.meter.going_on():
            self.step()
            self.meter.ticked()
            for hook in hooks:
                hook(self, self.meter.ticks)


def main():
    meter = Meter(__doc__)
    trainer = Trainer(meter)
    meter.calibrate(trainer.step)
    with tempfile.TemporaryDirectory() as folder:
        lines = JsonLines(Path(folder, "steps.jsonl"))
        trainer.fit([lines, SmallTest(meter, trainer.side)])
        meter.report()
        lines.close()


if __name__ == "__main__":
    main()
