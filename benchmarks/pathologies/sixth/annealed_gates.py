"""A mixture of experts whose compiled gate hardens with time: the number of the round is a plain attribute.

How many steps a round has is the dose. Each round the compiler meets a number that it took for a constant;
the back end is `aot_eager`, which needs no compiler, and limits on recompiling are lifted. A perfect
diagnosis: torch compiles again and again, at the call marked below. Fix: the hardness is a buffer.
"""

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

IN, OUT, EXPERTS = 48, 8, 4


class NumberedGate(nn.Module):
    """Hardens with the number of the round."""

    def __init__(self):
        super().__init__()
        self.choose, self.round = nn.Linear(IN, EXPERTS), 0

    def advance(self):
        self.round += 1

    def forward(self, x):
        return (self.choose(x) * (1 + 0.01 * self.round)).softmax(-1)


class BufferedGate(nn.Module):
    def __init__(self):
        super().__init__()
        self.choose = nn.Linear(IN, EXPERTS)
        self.register_buffer("hardness", torch.ones(()))

    def advance(self):
        self.hardness.add_(0.01)

    def forward(self, x):
        return (self.choose(x) * self.hardness).softmax(-1)


class Experts(nn.Module):
    def __init__(self, width, depth, gate):
        super().__init__()
        self.enter = nn.Linear(IN, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, EXPERTS * OUT)
        self.gate = gate
        self.gate.compile(backend="aot_eager", dynamic=False)

    def forward(self, x):
        h = self.enter(x)
        for layer in self.body:
            h = h + F.silu(layer(h))
        answers = self.leave(h).unflatten(1, (EXPERTS, OUT))
        return (self.gate(x)[..., None] * answers).sum(1)  # planted


class Annealing:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        gate = NumberedGate() if meter.sick else BufferedGate()
        self.net = Experts(*meter.pick((4096, 5), (320, 4)), gate).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.x = torch.randn(rows, IN, device=meter.device)
        self.y = torch.randn(rows, OUT, device=meter.device)

    def step(self):
        with self.meter.autocast():
            guess = self.net(self.x)
        loss = F.mse_loss(guess.float(), self.y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def rounds(self, steps):
        while True:
            self.net.gate.advance()
            for _ in range(steps):
                if not self.meter.going_on():
                    return
                self.step()
                self.meter.ticked()


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def main():
    meter = Meter(__doc__)
    lift_limits()
    annealing = Annealing(meter)
    meter.calibrate(annealing.step)
    steps = 50
    if meter.sick:
        again_s = meter.timed_s(lambda: (annealing.net.gate.advance(), annealing.step())) - meter.healthy_s
        steps = max(1, round(again_s / meter.added_s))
    annealing.rounds(steps)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
