"""Ages of stars by a net of which the last layer is a Chebyshev KAN; its polynomials come by their recursion.

Of which degree they are is the dose. A perfect diagnosis: launch-bound, as each degree of the recursion
marked below is some tiny kernels, forward and backward, and the GPU waits for the next one. Fix: all degrees
at once, as cosines.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LINES, NARROW = 80, 8


class ChebyshevLayer(nn.Module):
    """From -1..1 to one number, by a polynomial of each input."""

    def __init__(self, degree):
        super().__init__()
        self.degree = degree
        self.weights = nn.Parameter(torch.randn(degree + 1, NARROW) / (degree + 1))

    def by_recursion(self, x):
        basis = [torch.ones_like(x), x]
        for _ in range(2, self.degree + 1):
            basis.append(2 * x * basis[-1] - basis[-2])  # planted
        return torch.stack(basis, 1)

    def by_cosines(self, x):
        degrees = torch.arange(self.degree + 1, device=x.device, dtype=x.dtype)
        return torch.cos(degrees[None, :, None] * torch.acos(x)[:, None])

    def forward(self, x, recursion):
        basis = self.by_recursion(x) if recursion else self.by_cosines(x)
        return (basis * self.weights).sum((1, 2))


class StarNet(nn.Module):
    def __init__(self, width, depth, degree=4):
        super().__init__()
        self.enter, self.narrow = nn.Linear(LINES, width), nn.Linear(width, NARROW)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.age, self.rough = ChebyshevLayer(degree), nn.Linear(width, 1)

    def forward(self, spectra, sure, recursion):
        """The first `sure` stars get a fine age, the others a rough one."""
        h = self.enter(spectra)
        for layer in self.body:
            h = h + F.silu(layer(h))
        x = self.narrow(h[:sure]).float().tanh() * 0.99
        return self.age(x, recursion), self.rough(h[sure:])[:, 0].float()


class Catalogue:
    def __init__(self, meter):
        self.meter, (rows, self.sure) = meter, meter.pick((8192, 128), (96, 8))
        self.net = StarNet(*meter.pick((4096, 5), (128, 3))).to(meter.device)
        self.spectra = torch.randn(rows, LINES, device=meter.device)
        self.ages = torch.rand(rows, device=meter.device)
        self.of_degree(4)

    def of_degree(self, degree):
        self.net.age = ChebyshevLayer(degree).to(self.meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=self.meter.gpu)

    def step(self, recursion):
        with self.meter.autocast():
            fine, rough = self.net(self.spectra, self.sure, recursion)
        loss = F.mse_loss(fine, self.ages[: self.sure]) + F.mse_loss(rough, self.ages[self.sure :])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def host_s_of_a_degree(catalogue):
    layer = ChebyshevLayer(60).to(catalogue.meter.device)
    x = torch.zeros(catalogue.sure, NARROW, device=catalogue.meter.device, requires_grad=True)
    return catalogue.meter.timed_s(lambda: layer(x, True).sum().backward(), calls=6) / 60


def main():
    meter = Meter(__doc__)
    catalogue = Catalogue(meter)
    meter.calibrate(lambda: catalogue.step(recursion=False))
    if meter.dose:
        catalogue.of_degree(max(4, round(meter.host_s / host_s_of_a_degree(catalogue))))
    while meter.going_on():
        catalogue.step(recursion=meter.sick)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
