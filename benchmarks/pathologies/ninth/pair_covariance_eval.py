"""Two faults: a self-supervised loss asks for fp32, to be on the safe side, and evaluations come often.

Each takes three quarters of a dose. A perfect diagnosis names both: a large product in fp32, without tensor
cores (first marked line), and evaluations much too often (second). Fix: the product in bf16, and an
evaluation every two thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, PIXELS, KINDS, RARELY = 0.75, 192, 10, 2000


def covariance_exactly(traits):
    traits = traits.float() - traits.float().mean(0)
    return traits.T @ traits / len(traits)  # planted


def covariance_quickly(traits):
    traits = (traits.float() - traits.float().mean(0)).bfloat16()
    return (traits.T @ traits).float() / len(traits)


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.project = nn.Linear(PIXELS, width), nn.Linear(width, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, patches):
        h = self.enter(patches)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.project(h)


class SelfSupervised:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = Encoder(*meter.pick((4096, 4), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.patches = torch.rand(self.rows, PIXELS, device=meter.device)
        self.kinds = torch.randint(KINDS, (self.rows,), device=meter.device)
        self.compared, self.blocks = 64, 4

    def step(self, covariance):
        with self.meter.autocast():
            traits = self.net(self.patches)
        spread = covariance(traits[:, : self.compared])
        apart = (spread.square().sum() - spread.diagonal().square().sum()) / self.compared
        loss = F.relu(1 - traits.float().std(0)).mean() + 0.01 * apart
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        """How often is the nearest centre that of one's own kind?"""
        self.net.eval()
        right = torch.zeros((), device=self.meter.device)
        own = F.one_hot(self.kinds, KINDS).float()
        for _ in range(self.blocks):
            with self.meter.autocast():
                traits = F.normalize(self.net(self.patches), dim=1)  # planted
                guess = (traits @ (own.T @ traits).T).argmax(1)
            right += (guess == self.kinds).float().mean()
        self.net.train()
        return right.item() / self.blocks


def traits_that_cost(run, part_s):
    """Its cost grows with the square of their number."""
    count = run.meter.pick(1024, 32)
    traits = torch.randn(run.rows, count, device=run.meter.device, requires_grad=True)
    once_s = run.meter.timed_s(lambda: covariance_exactly(traits).sum().backward(), calls=5)
    most = run.net.project.out_features
    return min(most, max(16, round(count * (part_s / once_s) ** 0.5) // 16 * 16))


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    run, every = SelfSupervised(meter), RARELY
    meter.calibrate(lambda: run.step(covariance_quickly))
    part_s = PART * meter.added_s
    if meter.dose:
        run.compared = traits_that_cost(run, part_s)
    if meter.sick:
        every = max(1, round(meter.timed_s(run.evaluate) / part_s))
    covariance = covariance_exactly if meter.sick else covariance_quickly
    while meter.going_on():
        run.step(covariance)
        meter.ticked()
        if meter.ticks % every == 0:
            run.evaluate()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
