"""Two faults: a VQ-VAE finds its codes by `cdist`, which autocast keeps in fp32, and the run is saved often.

Each takes three quarters of a dose. A perfect diagnosis names both: large products without tensor cores
(first marked line), and checkpoints much too often (second). Fix: distances by a product under autocast, and
a checkpoint at the end.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, PIXELS = 0.75, 192


def by_distance(found, codes):
    return torch.cdist(found, codes).argmin(1)  # planted


def by_product(found, codes):
    return (found @ codes.T - 0.5 * codes.square().sum(1)).argmax(1)


class Autoencoder(nn.Module):
    def __init__(self, width, depth, size):
        super().__init__()
        self.enter, self.leave = nn.Linear(PIXELS, width), nn.Linear(width, PIXELS)
        self.encoder = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.down, self.up = nn.Linear(width, size), nn.Linear(size, width)

    def encode(self, patches):
        h = self.enter(patches)
        for layer in self.encoder:
            h = h + F.silu(layer(h))
        return self.down(h)

    def decode(self, codes):
        return self.leave(F.silu(self.up(codes)))


class Tokenizer:
    def __init__(self, meter, nearest):
        self.meter, self.nearest, rows = meter, nearest, meter.pick(8192, 64)
        width, depth, self.size = meter.pick((4096, 4, 1024), (64, 2, 16))
        self.net = Autoencoder(width, depth, self.size).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.patches = torch.rand(rows, PIXELS, device=meter.device)
        self.new_codes(meter.pick(512, 32))

    def new_codes(self, count):
        self.codes = torch.randn(count, self.size, device=self.meter.device)

    def step(self):
        with self.meter.autocast():
            found = self.net.encode(self.patches)
            with torch.no_grad():
                code = self.codes[self.nearest(found, self.codes)]
            passed = found + (code - found).detach()
            guess = self.net.decode(passed)
        loss = F.mse_loss(guess.float(), self.patches) + 0.25 * F.mse_loss(found.float(), code)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class RunFolder:
    """Keeps what is needed to go on after a crash."""

    def __init__(self, folder, tokenizer, every):
        self.folder, self.tokenizer, self.every = Path(folder), tokenizer, every

    def save(self):
        torch.save({"net": self.tokenizer.net.state_dict()}, self.folder / "last.pt")  # planted

    def after(self, step):
        if step % self.every == 0:
            self.save()


def code_s(tokenizer, probe):
    found = torch.randn(len(tokenizer.patches), tokenizer.size, device=tokenizer.meter.device)
    codes = torch.randn(probe, tokenizer.size, device=tokenizer.meter.device)
    return tokenizer.meter.timed_s(lambda: by_distance(found, codes), calls=6) / probe


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    tokenizer = Tokenizer(meter, by_product)
    meter.calibrate(tokenizer.step)
    part_s = PART * meter.added_s
    if meter.dose:
        tokenizer.new_codes(max(32, round(part_s / code_s(tokenizer, meter.pick(4096, 64)))))
    tokenizer.nearest = by_distance if meter.sick else by_product
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder(folder, tokenizer, every=1_000_000)
        if meter.sick:
            run.every = max(1, round(meter.timed_s(run.save, calls=2) / part_s))
        while meter.going_on():
            tokenizer.step()
            meter.ticked()
            run.after(meter.ticks)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
