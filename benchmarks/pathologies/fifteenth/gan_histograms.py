"""A generator of textures and a critic, each with an optimizer; a thread counts how weights are spread.

It sorts weights into bins and writes them as lines of text, so that one may look at them during the run,
all in plain Python. For how much of the time it does is the dose. A perfect diagnosis: another Python
thread holds the interpreter (any line marked below). Fix: NumPy counts, in a moment.
"""

import bisect
import threading
import time

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE, NOISE, BATCH, EDGES, PERIOD_S = 16, 24, 24, [0.002 * k for k in range(-40, 41)], 0.2


class Generator(nn.Sequential):
    def __init__(self, width=28):
        super().__init__(
            nn.Linear(NOISE, 2 * width * 16),
            nn.Unflatten(1, (2 * width, 4, 4)),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
            nn.Tanh(),
        )


class Critic(nn.Sequential):
    def __init__(self, width=28):
        super().__init__(
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, width, 4, 2, 1)),
            nn.LeakyReLU(0.2),
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(width, 2 * width, 4, 2, 1)),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(2 * width * 16, 1),
        )


class SummaryThread(threading.Thread):
    """Like a writer of TensorBoard's, but for a file of text."""

    def __init__(self, nets, busy_s, count):
        super().__init__(name="summaries", daemon=True)
        self.nets, self.busy_s, self.count = nets, busy_s, count
        self.closed, self.lines, self.round = threading.Event(), [], 0

    def snapshot(self):
        return [(name, p.detach().flatten()) for net in self.nets for name, p in net.named_parameters()]

    def histogram(self, values):
        bins = [0] * (len(EDGES) + 1)
        for value in values:
            bins[bisect.bisect(EDGES, value)] += 1  # planted
        return bins

    def summary(self, name, values):
        mean = sum(values) / len(values)
        spread = sum((value - mean) ** 2 for value in values) / len(values)  # planted
        bins = self.histogram(values)  # planted
        return f"{self.round} {name} {mean:.5f} {spread:.6f} " + ",".join(map(str, bins))

    def summarize(self, until_s):
        while time.perf_counter() < until_s:
            for name, values in self.snapshot():
                self.lines.append(self.summary(name, values[:250].tolist()))  # planted
                if time.perf_counter() > until_s:
                    break
            self.round += 1
            del self.lines[:-50]

    def run(self):
        while not self.closed.is_set():
            begin_s = time.perf_counter()
            if self.count == "python":
                self.summarize(begin_s + self.busy_s)
            else:
                for name, values in self.snapshot():
                    bins, _ = np.histogram(values.cpu().numpy(), EDGES)
                    self.lines.append(f"{self.round} {name} " + ",".join(map(str, bins)))
                del self.lines[:-50]
            self.closed.wait(max(0.005, PERIOD_S - (time.perf_counter() - begin_s)))


def hinge(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def main():
    meter = Meter(__doc__)
    generator, critic = Generator().to(meter.device), Critic().to(meter.device)
    opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    textures = torch.rand(BATCH, 3, SIDE, SIDE, device=meter.device) * 2 - 1

    def train_critic():
        with torch.no_grad():
            fake = generator(torch.randn(BATCH, NOISE, device=meter.device))
        opt_d.zero_grad()
        hinge(critic(textures), critic(fake)).backward()
        opt_d.step()

    def train_generator():
        made = generator(torch.randn(BATCH, NOISE, device=meter.device))
        opt_g.zero_grad()
        (-critic(made).mean()).backward()
        opt_g.step()

    def tick():
        train_critic()
        train_generator()

    meter.calibrate(tick)
    busy_s = PERIOD_S * meter.share / (1 + meter.share)
    summaries = SummaryThread((generator, critic), busy_s, "python" if meter.sick else "numpy")
    summaries.start()
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report(excess=True)
    summaries.closed.set()
    summaries.join()


if __name__ == "__main__":
    main()
