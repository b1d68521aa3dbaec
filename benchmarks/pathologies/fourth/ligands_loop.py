"""Proteins and the small molecules that bind to them: each molecule goes through the graph layers alone.

How many molecules a step has is the dose. A perfect diagnosis: launch-bound, hundreds of small kernels from
the loop marked below, and the GPU waits for the next one. Fix: all molecules as one batched product.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ATOMS, CHANNELS, LAYERS, RESIDUES = 24, 64, 3, 128


class Ligands(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(CHANNELS, CHANNELS) / 8 for _ in range(LAYERS))

    def one_by_one(self, atoms, bonds):
        pooled = []
        for h, near in zip(atoms.unbind(), bonds.unbind(), strict=True):
            for weight in self.weights:
                h = torch.relu(near @ (h @ weight))  # planted
            pooled.append(h.mean(0))
        return torch.stack(pooled)

    def together(self, atoms, bonds):
        h = atoms
        for weight in self.weights:
            h = torch.relu(torch.bmm(bonds, h @ weight))
        return h.mean(1)


class Protein(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(RESIDUES, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, CHANNELS)

    def forward(self, residues):
        h = self.enter(residues)
        for layer in self.layers:
            h = h + F.gelu(layer(h))
        return self.leave(h)


class Binding:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.protein = Protein(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.ligands = Ligands().to(meter.device)
        weights = [*self.protein.parameters(), *self.ligands.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.residues = torch.randn(rows, RESIDUES, device=meter.device)
        self.molecules(8)

    def molecules(self, count):
        self.atoms = torch.randn(count, ATOMS, CHANNELS, device=self.meter.device)
        self.bonds = torch.rand(count, ATOMS, ATOMS, device=self.meter.device).softmax(-1)

    def step(self, embed):
        bound = embed(self.atoms, self.bonds)
        with self.meter.autocast():
            sites = self.protein(self.residues)
        energy = sites.float() @ bound.T
        loss = energy.square().mean() - energy.mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def host_s_of_one(binding):
    """What the host needs for one molecule more, forward and backward, with nothing else to do."""
    ligands, meter = binding.ligands, binding.meter
    binding.molecules(32)

    def alone():
        ligands.one_by_one(binding.atoms, binding.bonds).sum().backward()

    return meter.timed_s(alone, calls=6) / 32


def main():
    meter = Meter(__doc__)
    binding = Binding(meter)
    together = binding.ligands.together
    meter.calibrate(lambda: binding.step(together))
    if meter.dose:
        binding.molecules(max(8, round(meter.host_s / host_s_of_one(binding))))
    embed = binding.ligands.one_by_one if meter.sick else together
    while meter.going_on():
        binding.step(embed)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
