"""Healthy control: voices of a choir, set apart by a net that masks spectra; it saves and tidies up at times.

Tempting: a checkpoint, and all garbage collected, every hundred and fifty steps; both are quick. A
perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import gc
import io

import torch
from stopwatch import Meter
from torch import nn

PITCHES, FRAMES, VOICES, BATCH, EVERY = 128, 24, 4, 12, 150


class VoiceMask(nn.Module):
    def __init__(self, size=160):
        super().__init__()
        self.squeeze = nn.Linear(PITCHES, size)
        self.lstm = nn.LSTM(size, size, bidirectional=True, batch_first=True)
        self.open = nn.Linear(2 * size, VOICES * PITCHES)

    def forward(self, mixed):
        states, _ = self.lstm(self.squeeze(mixed).relu())
        return self.open(states).unflatten(2, (VOICES, PITCHES)).softmax(2) * mixed[:, :, None]


class EveryFew:
    """Callbacks, each with how often it is due."""

    def __init__(self, **due):
        self.due, self.step = due, 0

    def __call__(self, **callbacks):
        self.step += 1
        for name, callback in callbacks.items():
            if self.step % self.due[name] == 0:
                callback()


def main():
    meter = Meter(__doc__)
    net = VoiceMask().to(meter.device)
    optimizer = torch.optim.Adamax(net.parameters(), lr=2e-3)
    voices = torch.rand(BATCH, FRAMES, VOICES, PITCHES, device=meter.device)
    due, kept = EveryFew(save=EVERY, tidy=EVERY), io.BytesIO()

    def save():
        kept.seek(0)
        torch.save({"net": net.state_dict(), "step": due.step}, kept)

    def step():
        parts = net(voices.sum(2))
        loss = (parts - voices).abs().mean() + 0.1 * (parts.diff(dim=1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        due(save=save, tidy=gc.collect)

    meter.calibrate(step)
    while meter.going_on():
        step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
