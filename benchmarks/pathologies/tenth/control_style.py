"""Healthy control: a walker learns a style from motion clips, with a discriminator, all of it on one device.

Environment, policy and discriminator are batched and wide; nothing is read. A perfect diagnosis: healthy,
nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, JOINTS = 32, 12


class Tower(nn.Module):
    def __init__(self, enter, width, depth, leave):
        super().__init__()
        self.enter, self.leave = nn.Linear(enter, width), nn.Linear(width, leave)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, rows):
        h = F.silu(self.enter(rows))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Walkers:
    """All of them in one tensor; who has fallen begins again."""

    def __init__(self, count, device):
        self.state = torch.randn(count, STATE, device=device)

    @torch.no_grad()
    def step(self, torque):
        after = self.state.clone()
        after[:, :JOINTS] += 0.05 * torque.tanh()
        fallen = after.square().mean(1, keepdim=True) > 4.0
        self.state = torch.where(fallen, torch.randn_like(after), after)
        return self.state


class StyleTraining:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        (width, depth), half = meter.pick((4096, 4), (128, 3)), rows // 2
        self.walkers = Walkers(rows, meter.device)
        self.policy = Tower(STATE, width, depth, JOINTS + 1).to(meter.device)
        self.judge = Tower(2 * STATE, width, max(1, depth // 2), 1).to(meter.device)
        self.optimizers = [
            torch.optim.Adam(net.parameters(), 1e-5, fused=meter.gpu) for net in (self.policy, self.judge)
        ]
        self.actor = torch.randn(half, 2 * STATE, device=meter.device)
        self.is_actor = (torch.arange(rows, device=meter.device) < half).float()
        self.half = half

    def tick(self):
        before = self.walkers.state
        with self.meter.autocast():
            out = self.policy(before)
        torque = out[:, :JOINTS] + 0.2 * torch.randn_like(out[:, :JOINTS])
        pairs = torch.cat([before, self.walkers.step(torque.detach())], 1)
        with self.meter.autocast():
            real = self.judge(torch.cat([self.actor, pairs[self.half :]]))[:, 0]
        self.learn(F.binary_cross_entropy_with_logits(real, self.is_actor), self.optimizers[1])
        gain = (real.detach() - out[:, JOINTS]).clamp(-5, 5)
        effort = (torque.detach() - out[:, :JOINTS]).square().mean(1)
        self.learn(gain.square().mean() + (effort * gain.detach()).mean(), self.optimizers[0])

    @staticmethod
    def learn(loss, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def main():
    meter = Meter(__doc__)
    training = StyleTraining(meter)
    meter.calibrate(training.tick)
    while meter.going_on():
        training.tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
