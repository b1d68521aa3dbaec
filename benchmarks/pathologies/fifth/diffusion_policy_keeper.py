"""A diffusion policy for a robot arm; a keeper of checkpoints holds the last three, and comes too often.

How often is the dose. A perfect diagnosis: the training stands still while a checkpoint is written (marked
below). Fix: one every ten thousand steps.
"""

import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, JOINTS, HORIZON, LEVELS = 40, 7, 16, 100


@dataclass
class Keeper:
    folder: Path
    every: int = 10_000
    keep: int = 3
    kept: deque = field(default_factory=deque)

    def after_step(self, step, policy):
        if step and step % self.every == 0:
            self.write(self.folder / f"policy-{step:06d}.pt", policy)

    def write(self, path, policy):
        partial = path.with_suffix(".part")
        with partial.open("wb") as file:
            torch.save({"policy": policy.state_dict(), "horizon": HORIZON}, file)  # planted
        partial.replace(path)
        self.kept.append(path)
        if len(self.kept) > self.keep:
            self.kept.popleft().unlink(missing_ok=True)


class Conditioned(nn.Module):
    """A layer that is shifted by what the robot sees."""

    def __init__(self, width):
        super().__init__()
        self.main, self.shift = nn.Linear(width, width), nn.Linear(128, width)

    def forward(self, h, seen):
        return h + F.mish(self.main(h) + self.shift(seen))


class DiffusionPolicy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.see = nn.Sequential(nn.Linear(SEEN, 128), nn.Mish())
        self.level = nn.Embedding(LEVELS, 128)
        self.enter, self.leave = nn.Linear(HORIZON * JOINTS, width), nn.Linear(width, HORIZON * JOINTS)
        self.layers = nn.ModuleList(Conditioned(width) for _ in range(depth))
        self.register_buffer("signal", torch.linspace(0.999, 0.01, LEVELS))

    def loss(self, seen, actions):
        level = torch.randint(LEVELS, (len(seen),), device=seen.device)
        noise, signal = torch.randn_like(actions), self.signal[level][:, None]
        noisy = signal.sqrt() * actions + (1 - signal).sqrt() * noise
        known = self.see(seen) + self.level(level)
        h = self.enter(noisy)
        for layer in self.layers:
            h = layer(h, known)
        return F.mse_loss(self.leave(h).float(), noise)


def main():
    meter = Meter(__doc__)
    rows = meter.pick(12_288, 64)
    policy = DiffusionPolicy(*meter.pick((2560, 8), (192, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, weight_decay=1e-6, fused=meter.gpu)
    seen = torch.randn(2 * rows, SEEN, device=meter.device)
    actions = torch.randn(2 * rows, HORIZON * JOINTS, device=meter.device)

    def imitate():
        start = int(torch.randint(rows, ()))
        with meter.autocast():
            loss = policy.loss(seen[start : start + rows], actions[start : start + rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(imitate)
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(Path(folder))
        if meter.sick:
            once_s = meter.timed_s(lambda: keeper.write(Path(folder, "first.pt"), policy))
            keeper.every = max(1, round(once_s / meter.added_s))
        while meter.going_on():
            imitate()
            meter.ticked()
            keeper.after_step(meter.ticks, policy)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
