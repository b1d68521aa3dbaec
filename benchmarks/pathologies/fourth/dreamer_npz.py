"""A world model of a robot's sensors that writes its weights as a NumPy archive every few steps.

How often is the dose. A perfect diagnosis: the training stands still while weights are written (marked
below). Fix: not before the end.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SENSORS, MOTORS = 64, 8


class WorldModel(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SENSORS + MOTORS, hidden), nn.ELU())
        self.memory = nn.GRU(hidden, hidden, batch_first=True)
        self.dream = nn.Sequential(
            nn.Linear(hidden, 2 * hidden), nn.ELU(), nn.Linear(2 * hidden, hidden), nn.ELU()
        )
        self.sensors, self.reward = nn.Linear(hidden, SENSORS), nn.Linear(hidden, 1)

    def forward(self, sensed, moved):
        remembered, _ = self.memory(self.encoder(torch.cat([sensed, moved], -1)))
        h = self.dream(remembered)
        return self.sensors(h), self.reward(h)


class Archive:
    def __init__(self, path):
        self.path = path

    def write(self, model):
        weights = {name: weight.cpu().numpy() for name, weight in model.state_dict().items()}
        np.savez(self.path, **weights)  # planted


def train_on(model, optimizer, episodes, meter):
    sensed, moved, reward = episodes
    with meter.autocast():
        guess, gain = model(sensed[:, :-1], moved[:, :-1])
    loss = F.mse_loss(guess.float(), sensed[:, 1:]) + F.mse_loss(gain.float(), reward[:, 1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 100.0)
    optimizer.step()


def main():
    meter = Meter(__doc__)
    hidden, episodes, length = meter.pick((2048, 512, 33), (256, 4, 5))
    model = WorldModel(hidden).to(meter.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=meter.gpu)
    replay = [torch.randn(episodes, length, n, device=meter.device) for n in (SENSORS, MOTORS, 1)]
    meter.calibrate(lambda: train_on(model, optimizer, replay, meter))
    with tempfile.TemporaryDirectory() as folder:
        archive, every = Archive(Path(folder, "weights.npz")), 10**6
        if meter.sick:
            every = max(1, round(meter.timed_s(lambda: archive.write(model)) / meter.added_s))
        while meter.going_on():
            train_on(model, optimizer, replay, meter)
            meter.ticked()
            if meter.ticks % every == 0:
                archive.write(model)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
