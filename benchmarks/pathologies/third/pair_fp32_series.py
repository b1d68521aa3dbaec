"""Two faults: an activation written out as a series, and a wide output layer in fp32 without tensor cores.

Each takes three quarters of a dose. A perfect diagnosis names both: elementwise kernels that the GPU's
memory bounds (first marked line) and fp32 products (second). Fix: `torch.tanh` and bfloat16. Needs a GPU.
"""

import torch
from stopwatch import Meter
from torch import nn

PART, PROBE = 0.75, 2048


class SurrogateModel(nn.Module):
    """Of a simulation: parameters in, a field of `cells` values out."""

    def __init__(self, dim, depth, cells):
        super().__init__()
        self.enter = nn.Linear(64, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.field = nn.Linear(dim, cells)
        self.precise, self.terms = False, 0

    def saturate(self, x):
        if not self.terms:
            return torch.tanh(x)
        x = x.float().clamp(-1, 1)
        series = torch.ones_like(x)
        for n in range(self.terms, 0, -1):
            series = series * x / (n + 1) + 1  # planted
        return series - 1

    def decode(self, x):
        if not self.precise:
            return self.field(x)
        with torch.autocast(x.device.type, enabled=False):
            return self.field(x.float())  # planted

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.decode(self.saturate(x))


class Fitting:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 32)
        self.shape = meter.pick((4096, 5), (32, 2))
        self.inputs = torch.randn(self.rows, 64, device=meter.device)
        self.build(cells=256)

    def build(self, cells):
        self.model = SurrogateModel(*self.shape, cells).to(self.meter.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

    def step(self):
        with self.meter.autocast():
            loss = self.model(self.inputs).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def cells_costing(fitting, part_s):
    """Cells at which fp32 costs that much more than bfloat16."""
    fitting.build(cells=PROBE)
    fitting.model.precise = True
    precise_s = fitting.meter.timed_s(fitting.step)
    fitting.model.precise = False
    extra_s = max(1e-6, precise_s - fitting.meter.timed_s(fitting.step))
    return max(256, min(4 * PROBE, round(PROBE * part_s / extra_s / 128) * 128))


def terms_costing(fitting, part_s):
    plain_s = fitting.meter.timed_s(fitting.step)
    fitting.model.terms = 6
    extra_s = max(1e-6, (fitting.meter.timed_s(fitting.step) - plain_s) / 6)
    return max(1, min(60, round(part_s / extra_s)))


def main():
    meter = Meter(__doc__)
    fitting = Fitting(meter)
    meter.calibrate(fitting.step)
    if meter.dose:
        part_s = PART * meter.added_s
        terms, cells = terms_costing(fitting, part_s), cells_costing(fitting, part_s)
        fitting.build(cells)
        fitting.model.terms, fitting.model.precise = (terms, True) if meter.sick else (0, False)
    while meter.going_on():
        fitting.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
