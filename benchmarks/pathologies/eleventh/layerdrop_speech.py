"""Speech commands with LayerDrop: some layers of a compiled adapter are left out, and others the next time.

How many steps a choice of layers lasts is the dose. The choice is a tuple of Python, and each that was not
seen before is another program; the back end is `aot_eager`, which needs no compiler, and limits on
recompiling are lifted. A perfect diagnosis: torch compiles again and again, at the call marked below. Fix: a
layer is left out by a factor of 0.
"""

import random
import time

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

MELS, COMMANDS, LAYERS, PART = 80, 35, 10, 32


class Adapter(nn.Module):
    """Many small layers on the narrow side."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(PART, PART) for _ in range(LAYERS))

    def forward(self, h, kept):
        for number in kept:
            h = h + torch.tanh(self.layers[number](h))
        return h


class SteadyAdapter(Adapter):
    def forward(self, h, kept):
        for number, layer in enumerate(self.layers):
            h = h + kept[number] * torch.tanh(layer(h))
        return h


class Dropper:
    """Which layers stay, as numbers or as factors."""

    def __init__(self, device=None):
        self.random, self.device = random.Random(0), device

    def draw(self):
        stays = [self.random.random() < 0.7 for _ in range(LAYERS)]
        if self.device is None:
            return tuple(number for number, stay in enumerate(stays) if stay)
        factors = torch.tensor(stays, dtype=torch.float32)
        factors = factors.pin_memory() if self.device.type == "cuda" else factors
        return factors.to(self.device, non_blocking=True)


class CommandNet(nn.Module):
    def __init__(self, adapter, width, depth):
        super().__init__()
        self.narrow, self.adapter = nn.Linear(MELS, PART), adapter
        self.compiled = torch.compile(adapter, backend="aot_eager", dynamic=False)
        self.wide, self.command = nn.Linear(MELS, width), nn.Linear(width + PART, COMMANDS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, mels, kept):
        h = self.wide(mels)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        adapted = self.compiled(self.narrow(mels[:512]).float(), kept)  # planted
        adapted = adapted.mean(0, keepdim=True).expand(len(h), -1)
        return self.command(torch.cat([h, adapted.to(h.dtype)], 1)).float()


class Training:
    def __init__(self, meter, adapter):
        self.meter, rows = meter, meter.pick(8192, 96)
        self.net = CommandNet(adapter, *meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.mels = torch.randn(rows, MELS, device=meter.device)
        self.commands = torch.randint(COMMANDS, (rows,), device=meter.device)

    def step(self, kept):
        with self.meter.autocast():
            scores = self.net(self.mels, kept)
        loss = F.cross_entropy(scores, self.commands)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def steps_for_each(meter, training, dropper):
    """Compiling costs the host, which is ahead of the GPU otherwise."""
    kept = dropper.draw()
    training.step(kept)
    meter.sync()
    begin_s = time.perf_counter()
    for _ in range(3):
        training.step(kept)
    launch_s = (time.perf_counter() - begin_s) / 3
    again_s = meter.timed_s(lambda: training.step(dropper.draw()), calls=6) - meter.healthy_s
    ahead_s = max(0.0, meter.healthy_s - launch_s) if meter.gpu else 0.0
    return max(1, round(again_s / (meter.added_s + ahead_s)))


def main():
    meter = Meter(__doc__)
    lift_limits()
    steady, factors = Training(meter, SteadyAdapter()), Dropper(meter.device)
    fixed = factors.draw()
    meter.calibrate(lambda: steady.step(fixed))
    training, dropper, steps = steady, factors, 30
    if meter.sick:
        training, dropper = Training(meter, Adapter()), Dropper()
        steps = steps_for_each(meter, training, dropper)
    kept = dropper.draw()
    training.step(kept)
    while meter.going_on():
        training.step(kept)
        meter.ticked()
        if meter.ticks % steps == 0:
            kept = dropper.draw()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
