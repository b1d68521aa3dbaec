"""Old glyphs by a discrete autoencoder; the choice of codes is compiled, and cools down as it is learned.

The temperature is a number of Python that a callback lowers; the compiler takes it for a constant, and each
new one is another program. How many steps a temperature lasts is the dose. The back end is `aot_eager`, which
needs no compiler, and limits on recompiling are lifted. A perfect diagnosis: torch compiles again and again,
at the call marked below. Fix: the temperature is a tensor.
"""

import time

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PIXELS, CODES, SOME = 256, 24, 256


class Choice(nn.Module):
    """Of codes, softly; some small layers refine it."""

    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature
        self.refine = nn.ModuleList(nn.Linear(CODES, CODES) for _ in range(4))

    def forward(self, scores):
        for layer in self.refine:
            scores = scores + torch.tanh(layer(scores)) / self.temperature
        return (scores / self.temperature).softmax(1)


class GlyphNet(nn.Module):
    def __init__(self, choice, width, depth):
        super().__init__()
        self.compiled = torch.compile(choice, backend="aot_eager", dynamic=False)
        self.enter, self.codes = nn.Linear(PIXELS, width), nn.Linear(width, CODES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave, self.style = nn.Linear(width, PIXELS), nn.Linear(CODES, PIXELS)

    def forward(self, glyphs):
        h = self.enter(glyphs)
        for layer in self.body:
            h = h + F.relu(layer(h))
        chosen = self.compiled(self.codes(h[:SOME]).float())  # planted
        return self.leave(h).float() + self.style(chosen).float().mean(0)


class Cooling:
    """A callback: after so many steps it is a little colder."""

    def __init__(self, choice, steps, factor=0.999):
        self.choice, self.steps, self.factor = choice, steps, factor

    def on_step_end(self, step):
        if step % self.steps == 0:
            self.cool()

    def cool(self):
        if isinstance(self.choice.temperature, float):
            self.choice.temperature = self.choice.temperature * self.factor
        else:
            self.choice.temperature.mul_(self.factor)


class Trainer:
    def __init__(self, meter, temperature):
        self.meter, rows = meter, meter.pick(8192, 96)
        self.choice = Choice(temperature)
        self.net = GlyphNet(self.choice, *meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.glyphs, self.callbacks = torch.rand(rows, PIXELS, device=meter.device), []

    def step(self):
        with self.meter.autocast():
            guess = self.net(self.glyphs)
        loss = F.mse_loss(guess, self.glyphs)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def fit(self):
        while self.meter.going_on():
            self.step()
            self.meter.ticked()
            for callback in self.callbacks:
                callback.on_step_end(self.meter.ticks)


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def steps_of_each(meter, trainer, cooling):
    """Compiling costs the host, which is ahead of the GPU otherwise."""
    trainer.step()
    meter.sync()
    begin_s = time.perf_counter()
    for _ in range(3):
        trainer.step()
    orders_s = (time.perf_counter() - begin_s) / 3
    again_s = meter.timed_s(lambda: (cooling.cool(), trainer.step()), calls=6) - meter.healthy_s
    ahead_s = max(0.0, meter.healthy_s - orders_s) if meter.gpu else 0.0
    return max(1, round(again_s / (meter.added_s + ahead_s)))


def main():
    meter = Meter(__doc__)
    lift_limits()
    trainer = Trainer(meter, torch.ones((), device=meter.device))
    meter.calibrate(trainer.step)
    cooling = Cooling(trainer.choice, 20)
    if meter.sick:
        trainer = Trainer(meter, 1.0)
        cooling = Cooling(trainer.choice, 20)
        cooling.steps = steps_of_each(meter, trainer, cooling)
    trainer.callbacks.append(cooling)
    trainer.fit()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
