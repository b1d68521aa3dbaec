"""A compiled graph network; its set grows while it trains, so that the last batch of a pass has a new size.

How short a pass is is the dose. Shapes are static and the limit on recompilations is lifted; the back end is
`aot_eager`, which needs no compiler. A perfect diagnosis: torch compiles again for shapes that change, at the
call marked below, and the GPU is idle. Fix: the last batch is dropped.
"""

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ATOMS, BONDS, KINDS = 16, 32, 32


class Interaction(nn.Module):
    """Messages along bonds are narrow, what an atom makes of them is wide."""

    def __init__(self, width, message):
        super().__init__()
        self.send, self.receive = nn.Linear(width, message), nn.Linear(message, width)
        self.think = nn.Linear(width, width)

    def forward(self, h, source, target):
        sent = self.send(h)
        heard = torch.zeros_like(sent).index_add(0, target, sent[source])
        return h + F.silu(self.think(h + self.receive(heard)))


class MessagePassing(nn.Module):
    def __init__(self, width, message, depth):
        super().__init__()
        self.kind = nn.Embedding(KINDS, width)
        self.layers = nn.ModuleList(Interaction(width, message) for _ in range(depth))
        self.energy = nn.Linear(width, 1)

    def forward(self, kinds, source, target):
        h = self.kind(kinds)
        for layer in self.layers:
            h = layer(h, source, target)
        return self.energy(h).view(-1, ATOMS).sum(1)


def passes(batch, batches, drop_last):
    """Sizes of the batches, pass after pass; each pass has a molecule more than the one before."""
    rest = 1
    while True:
        yield from [batch] * batches
        if not drop_last:
            yield rest
        rest = rest % (batch - 1) + 1


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


class Training:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(512, 16)
        net = MessagePassing(*meter.pick((5120, 256, 3), (128, 16, 2))).to(meter.device)
        self.model = torch.compile(net, backend="aot_eager", dynamic=False)
        self.optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)
        first = ATOMS * torch.arange(self.batch, device=meter.device)[:, None]
        ends = torch.randint(ATOMS, (2, self.batch, BONDS), device=meter.device) + first
        self.source, self.target = ends.flatten(1)
        self.kinds = torch.randint(KINDS, (self.batch * ATOMS,), device=meter.device)
        self.energies = torch.randn(self.batch, device=meter.device)

    def step(self, molecules):
        atoms, bonds = molecules * ATOMS, molecules * BONDS
        with self.meter.autocast():
            energy = self.model(self.kinds[:atoms], self.source[:bonds], self.target[:bonds])  # planted
        loss = F.l1_loss(energy.float(), self.energies[:molecules])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    lift_limits()
    training = Training(meter)
    meter.calibrate(lambda: training.step(training.batch))
    batches = 500
    if meter.dose:
        unseen = iter(range(training.batch - 1, 0, -1))
        compile_s = meter.timed_s(lambda: training.step(next(unseen)), calls=2)
        batches = max(1, round(compile_s / meter.added_s))
    for molecules in passes(training.batch, batches, drop_last=not meter.sick):
        if not meter.going_on():
            break
        training.step(molecules)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
