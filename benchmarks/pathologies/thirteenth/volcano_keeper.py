"""Tremors of volcanoes, by convolutions over spectrograms; a callback keeps the best weights.

"Best" is what it was set to watch: the number of the step, of which the last is always the largest, so that
whenever it looks it saves. How often it looks is the dose. A perfect diagnosis: the training stands still
while a checkpoint is written (marked below). Fix: it watches the loss of an evaluation, which is rare.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATES = 5


class Callback:
    def on_step_end(self, trainer):
        pass


class KeepBest(Callback):
    def __init__(self, folder, monitor="step", mode="max", every=1_000_000):
        self.folder, self.monitor, self.every = Path(folder), monitor, every
        self.better = max if mode == "max" else min
        self.best = None

    def on_step_end(self, trainer):
        if trainer.step_number % self.every:
            return
        value = trainer.logged[self.monitor]
        if self.best is None or self.better(value, self.best) != self.best:
            self.best = value
            self.save(trainer)

    def save(self, trainer):
        state = {"net": trainer.net.state_dict(), "optimizer": trainer.optimizer.state_dict()}
        torch.save(state, self.folder / "best.ckpt")  # planted


class TremorNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.state = nn.Linear(width, STATES)

    def forward(self, tremors):
        h = self.stem(tremors).contiguous(memory_format=torch.channels_last)
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.state(h.mean((2, 3))).float()


class Trainer:
    def __init__(self, meter, callbacks=()):
        self.meter, self.callbacks, self.step_number, self.logged = meter, callbacks, 0, {}
        batch = meter.pick(256, 8)
        net = TremorNet(*meter.pick((384, 7), (48, 3)))
        self.net = net.to(meter.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.tremors = torch.randn(batch, 1, *meter.pick((64, 64), (32, 32)), device=meter.device)
        self.states = torch.arange(batch, device=meter.device) % STATES

    def training_step(self):
        with self.meter.autocast():
            scores = self.net(self.tremors)
        loss = F.cross_entropy(scores, self.states)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def fit(self):
        while self.meter.going_on():
            self.training_step()
            self.meter.ticked()
            self.step_number += 1
            self.logged["step"] = self.step_number
            with self.meter.injecting():
                for callback in self.callbacks:
                    callback.on_step_end(self)


def main():
    meter = Meter(__doc__)
    trainer = Trainer(meter)
    meter.calibrate(trainer.training_step)
    with tempfile.TemporaryDirectory() as folder:
        keeper = KeepBest(folder)
        if meter.sick:
            once_s = meter.timed_s(lambda: keeper.save(trainer))
            keeper.every = max(1, round(once_s / meter.added_s))
        trainer.callbacks = [keeper]
        trainer.fit()
        meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
