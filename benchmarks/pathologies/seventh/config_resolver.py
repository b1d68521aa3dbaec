"""Contrastive learning of table rows; the settings refer to each other and are resolved in every step.

How many settings there are is the dose. A perfect diagnosis: a hot line of Python, a regular expression over
the whole configuration (marked below). Fix: it is resolved once, and what changes is set beside it.
"""

import math
import re

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FEATURES = 40
CONFIG = {
    "optim": {"base": "1e-5", "lr": "${optim.base}", "scale": "${views.noise}"},
    "views": {"noise": "0.2", "drop": "0.1", "other": "${views.drop}"},
    "loss": {"temperature": "0.2", "sharp": "${loss.temperature}"},
}


class Config:
    """Values like `${loss.temperature}` stand for others."""

    REFERENCE = re.compile(r"\$\{([a-z_]+)\.([a-z_0-9]+)\}")

    def __init__(self, tree, experiments):
        rest = {f"run_{n}": "${loss.temperature}" if n % 2 else f"{n}" for n in range(experiments)}
        self.tree = {**tree, "sweep": rest}

    def _value(self, text):
        while found := self.REFERENCE.search(text):
            text = text[: found.start()] + self.tree[found[1]][found[2]] + text[found.end() :]
        return text

    def resolved(self):
        flat = {}
        for group, entries in self.tree.items():
            for name, text in entries.items():
                flat[f"{group}.{name}"] = float(self._value(text))  # planted
        return flat


class ConfigStore:
    def __init__(self, config, each_time):
        self.config, self.each_time, self.kept = config, each_time, config.resolved()

    def current(self):
        return self.config.resolved() if self.each_time else self.kept


class Encoder(nn.Module):
    def __init__(self, width, depth, size=64):
        super().__init__()
        self.enter, self.leave = nn.Linear(FEATURES, width), nn.Linear(width, size)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, rows):
        h = self.enter(rows)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return F.normalize(self.leave(h).float())


class Contrast:
    def __init__(self, meter):
        self.meter, count = meter, meter.pick(4096, 64)
        self.encoder = Encoder(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.encoder.parameters(), 1e-5, fused=meter.gpu)
        self.rows = torch.randn(count, FEATURES, device=meter.device)
        self.same = torch.arange(count, device=meter.device)

    def view(self, cfg):
        noisy = self.rows + cfg["views.noise"] * torch.randn_like(self.rows)
        return F.dropout(noisy, cfg["views.drop"])

    def step(self, cfg, moment):
        for group in self.optimizer.param_groups:
            group["lr"] = cfg["optim.lr"] * (1 + math.cos(moment / 1000))
        with self.meter.autocast():
            one, two = self.encoder(torch.cat([self.view(cfg), self.view(cfg)])).chunk(2)
        alike = one @ two.T / cfg["loss.sharp"]
        loss = F.cross_entropy(alike, self.same)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    contrast, store = Contrast(meter), ConfigStore(Config(CONFIG, 4), False)
    meter.calibrate(lambda: contrast.step(store.current(), 0))
    if meter.dose:
        probe = Config(CONFIG, 2000)
        experiments = round(meter.host_s * 2000 / meter.timed_s(probe.resolved, calls=5))
        store = ConfigStore(Config(CONFIG, experiments), each_time=meter.sick)
    while meter.going_on():
        with meter.injecting():
            cfg = store.current()
        contrast.step(cfg, meter.ticks)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
