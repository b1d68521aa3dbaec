"""Healthy control: atoms of a crystal, a net that gathers from neighbours and scatters back, and callbacks.

Tempting: an evaluation in a callback, again and again, and a learning rate that follows it; but it is a
single batch. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is
no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ATOMS, BONDS, FEATURES, GRAPHS, EVALUATE_EVERY = 320, 1600, 24, 20, 120


def crystal(seed):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(ATOMS, (2, BONDS), generator=generator)
    lengths = torch.rand(BONDS, 1, generator=generator)
    of_graph = torch.arange(ATOMS) * GRAPHS // ATOMS
    energies = torch.randn(GRAPHS, generator=generator)
    return torch.randn(ATOMS, FEATURES, generator=generator), ends, lengths, of_graph, energies


class MessageLayer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * size + 1, size), nn.SiLU())
        self.update = nn.Linear(2 * size, size)

    def forward(self, h, ends, lengths):
        sent = self.message(torch.cat([h[ends[0]], h[ends[1]], lengths], 1))
        gathered = torch.zeros_like(h).index_add_(0, ends[1], sent)
        return h + self.update(torch.cat([h, gathered], 1)).relu()


class EnergyNet(nn.Module):
    def __init__(self, size=88):
        super().__init__()
        self.enter, self.energy = nn.Linear(FEATURES, size), nn.Linear(size, 1)
        self.layers = nn.ModuleList(MessageLayer(size) for _ in range(2))

    def forward(self, atoms, ends, lengths, of_graph):
        h = self.enter(atoms)
        for layer in self.layers:
            h = layer(h, ends, lengths)
        total = h.new_zeros(GRAPHS, h.shape[1]).index_add_(0, of_graph, h)
        return self.energy(total / (ATOMS / GRAPHS))[:, 0]


class Engine:
    """Handlers are called at the end of each iteration."""

    def __init__(self):
        self.handlers, self.iteration, self.wanted = [], 0, True

    def on(self, every):
        def register(handler):
            self.handlers.append((every, handler))
            return handler

        return register

    def run(self, process):
        while self.wanted:
            process(self.iteration)
            self.iteration += 1
            for every, handler in self.handlers:
                if self.iteration % every == 0:
                    handler()


def main():
    meter, engine = Meter(__doc__), Engine()
    net = EnergyNet().to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=30)
    crystals = [[part.to(meter.device) for part in crystal(seed)] for seed in range(16)]
    best = [float("inf"), 0]

    def process(iteration):
        *graph, energies = crystals[iteration % 15]
        loss = F.huber_loss(net(*graph), energies)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    @engine.on(every=EVALUATE_EVERY)
    def evaluate():
        *graph, energies = crystals[15]
        net.eval()
        with torch.no_grad():
            missed = F.l1_loss(net(*graph), energies).item()
        net.train()
        plateau.step(missed)
        best[:] = (missed, 0) if missed < best[0] else (best[0], best[1] + 1)

    @engine.on(every=1)
    def clock():
        meter.ticked()
        engine.wanted = meter.going_on() and best[1] < 10_000

    meter.calibrate(lambda: process(0))
    meter.going_on()
    engine.run(process)
    meter.report()


if __name__ == "__main__":
    main()
