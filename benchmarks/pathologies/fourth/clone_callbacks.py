"""Behaviour cloning under a small trainer with callbacks; one of them tidies up memory every few steps.

The trainer knows each demonstration as Python objects; how many there are is the dose. A perfect diagnosis:
the training stands still while the garbage collector walks through all of them (marked below). Fix: without
that callback.
"""

import gc
import math

import torch
from stopwatch import Meter
from torch import nn

STATE, ACTION = 48, 7


class Callback:
    def on_step_end(self, trainer):
        pass


class Smoothed(Callback):
    """The loss as a moving mean, where the loss is."""

    def on_step_end(self, trainer):
        trainer.smooth.lerp_(trainer.loss, 0.01)


class TidyUp(Callback):
    def __init__(self, every):
        self.every = every

    def on_step_end(self, trainer):
        if trainer.steps % self.every == 0:
            gc.collect()  # planted


class Policy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(STATE, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, ACTION)

    def forward(self, state):
        h = self.enter(state)
        for layer in self.body:
            h = h + torch.relu(layer(h))
        return self.leave(h)


class Trainer:
    def __init__(self, meter, callbacks):
        self.meter, self.callbacks, self.steps = meter, callbacks, 0
        self.policy = Policy(*meter.pick((4096, 5), (256, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=1e-5, fused=meter.gpu)
        self.batch = meter.pick(8192, 256)
        self.state = torch.randn(4 * self.batch, STATE, device=meter.device)
        self.action = torch.randn(4 * self.batch, ACTION, device=meter.device)
        self.smooth = torch.zeros((), device=meter.device)
        self.demonstrations = []

    def step(self):
        rows = torch.randint(len(self.state), (self.batch,), device=self.meter.device)
        with self.meter.autocast():
            predicted = self.policy(self.state[rows])
        loss = (predicted.float() - self.action[rows]).abs().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.loss, self.steps = loss.detach(), self.steps + 1
        for callback in self.callbacks:
            callback.on_step_end(self)


def demonstrations(count):
    return [{"id": n, "frames": [n, n + 1], "tags": {"robot": n % 7}} for n in range(count)]


def collecting(meter, trainer):
    """How often, and how many demonstrations, for a pause that costs the dose."""
    bare_s = meter.timed_s(gc.collect)
    trainer.demonstrations = demonstrations(50_000)
    each_s = (meter.timed_s(gc.collect) - bare_s) / 50_000
    every = max(2, math.ceil(1.5 * bare_s / meter.host_s))
    trainer.demonstrations = demonstrations(max(1000, round((every * meter.host_s - bare_s) / each_s)))
    return every


def main():
    meter = Meter(__doc__)
    trainer = Trainer(meter, [Smoothed()])
    meter.calibrate(trainer.step)
    if meter.dose:
        every = collecting(meter, trainer)
        if not meter.fixed:
            trainer.callbacks.append(TidyUp(every))
    while meter.going_on():
        trainer.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
