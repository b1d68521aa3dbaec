"""PPO for a robot on rough ground, whose learning rate follows the KL divergence after each mini-batch.

The divergence is compared in Python, which waits for all that is queued; the next ground is then made by
NumPy while the GPU has nothing to do. Doses 1 to 3 cost about 17, 33 and 46 %. A perfect diagnosis names
the wait, marked below. Fix: the learning rate is a tensor, and follows by arithmetic on the GPU.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SHARES = (0.0, 0.2, 0.5, 0.85)
SEEN, JOINTS, SIDE = 24, 12, 48


class Ground:
    """Heights made of waves in two directions."""

    def __init__(self, waves=1):
        self.rng, self.waves = np.random.default_rng(0), waves
        self.axis = np.linspace(0, 6.28, SIDE, dtype=np.float32)

    def make(self):
        heights = np.zeros((SIDE, SIDE), np.float32)
        for n in range(self.waves):
            shift = np.float32(self.rng.random())
            heights += np.multiply.outer(np.sin((1 + n % 7) * self.axis + shift), np.cos(self.axis))
        return torch.from_numpy(heights / (1 + self.waves))


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, JOINTS + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.spread = nn.Parameter(torch.zeros(JOINTS))

    def forward(self, seen):
        h = F.elu(self.enter(seen))
        for layer in self.body:
            h = h + F.elu(layer(h))
        mean, value = self.leave(h).float().split((JOINTS, 1), 1)
        return mean, value[:, 0]


class KlSchedule:
    """Faster where the policy hardly moves, slower where it moves too much."""

    def __init__(self, optimizer, device, wanted=0.01):
        self.group, self.wanted, self.rate = optimizer.param_groups[0], wanted, 1e-5
        self.rate_tensor = torch.full((), 1e-5, device=device)

    def by_comparing(self, kl):
        if kl > 2.0 * self.wanted:  # planted
            self.rate = max(1e-6, self.rate / 1.5)
        elif kl < 0.5 * self.wanted:
            self.rate = min(1e-4, self.rate * 1.5)
        self.group["lr"] = self.rate

    def by_arithmetic(self, kl):
        change = 1.0 + 0.5 * (kl < 0.5 * self.wanted) - (kl > 2.0 * self.wanted) / 3.0
        self.rate_tensor.mul_(change).clamp_(1e-6, 1e-4)
        self.group["lr"] = self.rate_tensor


class Ppo:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.net = ActorCritic(*meter.pick((4096, 5), (96, 3))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu, foreach=False)
        self.schedule, self.ground = KlSchedule(self.optimizer, meter.device), Ground()
        self.heights = torch.zeros(SIDE, SIDE, device=meter.device)
        self.feet = torch.randint(SIDE, (rows, 2), device=meter.device)
        self.seen = torch.randn(rows, SEEN, device=meter.device)
        self.moves = torch.randn(rows, JOINTS, device=meter.device)
        self.gains, self.returns = torch.randn(2, rows, device=meter.device)
        self.old_mean = torch.zeros(rows, JOINTS, device=meter.device)

    def mini_batch(self, adapt):
        heights = self.ground.make()
        heights = heights.pin_memory() if self.meter.gpu else heights
        self.heights.copy_(heights, non_blocking=True)
        self.seen[:, 0] = self.heights[self.feet[:, 0], self.feet[:, 1]]
        with self.meter.autocast():
            mean, value = self.net(self.seen)
        ratio = self.density(mean).sub(self.density(self.old_mean)).clamp(-5, 5).exp()
        surrogate = torch.min(ratio * self.gains, ratio.clamp(0.8, 1.2) * self.gains)
        loss = F.mse_loss(value, self.returns) - surrogate.mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            kl = 0.5 * ((mean - self.old_mean).square() * (-2 * self.net.spread).exp()).sum(1).mean()
        self.old_mean = mean.detach()
        adapt(kl)

    def density(self, mean):
        spread = self.net.spread
        return -(0.5 * ((self.moves - mean) * (-spread).exp()).square() + spread).sum(1)


def main():
    meter = Meter(__doc__)
    ppo = Ppo(meter)
    ground, schedule = ppo.ground, ppo.schedule
    meter.calibrate(lambda: ppo.mini_batch(schedule.by_arithmetic))
    plain_s = meter.timed_s(ground.make, calls=10)
    ground.waves = 41
    wave_s = (meter.timed_s(ground.make, calls=10) - plain_s) / 40
    ground.waves = max(1, round((SHARES[meter.dose] * meter.healthy_s - plain_s) / wave_s))
    adapt = schedule.by_comparing if meter.sick else schedule.by_arithmetic
    while meter.going_on():
        ppo.mini_batch(adapt)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
