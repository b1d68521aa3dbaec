"""A surrogate for the heat in rods, whose targets a solver on the GPU makes in every step, by `roll`.

How many steps it solves is the dose. A perfect diagnosis: many elementwise passes over large tensors, bound
by the GPU's memory (marked below). Fix: all the steps are one product with a power of the step's matrix.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

CELLS = 256


class Solver:
    """Explicit steps along each rod; its ends are joined."""

    def __init__(self, rate=0.2):
        self.rate, self.steps = rate, 1

    @torch.no_grad()
    def __call__(self, heat):
        for _ in range(self.steps):
            heat = heat + self.rate * (heat.roll(1, 1) - 2 * heat + heat.roll(-1, 1))  # planted
        return heat


class PowerSolver(Solver):
    def prepare(self, device):
        one = torch.eye(CELLS, dtype=torch.float64)
        step = one + self.rate * (one.roll(1, 1) - 2 * one + one.roll(-1, 1))
        self.matrix = torch.linalg.matrix_power(step, self.steps).float().to(device)
        return self

    @torch.no_grad()
    def __call__(self, heat):
        return heat @ self.matrix


class Surrogate(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(CELLS, width), nn.Linear(width, CELLS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, heat):
        h = self.enter(heat)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return heat + self.leave(h).float()


class Rods:
    def __init__(self, meter):
        self.meter, (self.rows, rods) = meter, meter.pick((8192, 131_072), (32, 512))
        self.net = Surrogate(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.heat = torch.rand(rods, CELLS, device=meter.device)
        self.solver = PowerSolver().prepare(meter.device)

    def step(self):
        """All rods cool down; the net learns from some, and new ones are heated."""
        later = self.solver(self.heat)
        with self.meter.autocast():
            guess = self.net(self.heat[: self.rows])
        loss = F.mse_loss(guess, later[: self.rows])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.heat = later.roll(self.rows, 0)
        self.heat[: self.rows].uniform_()


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("high")
    rods = Rods(meter)
    meter.calibrate(rods.step)
    if meter.dose:
        solver = Solver()
        step_s = meter.timed_s(lambda: solver(rods.heat), calls=8)
        steps = max(1, round(meter.added_s / step_s))
        rods.solver = solver if meter.sick else PowerSolver()
        rods.solver.steps = steps
        if not meter.sick:
            rods.solver.prepare(meter.device)
    while meter.going_on():
        rods.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
