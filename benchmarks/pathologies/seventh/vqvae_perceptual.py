"""A tokenizer of pictures with a perceptual loss, whose layers stand in a plain list that `.to` does not see.

How many pictures it judges is the dose. A perfect diagnosis: a part of the model computes on the CPU, and the
GPU waits for it (marked below). Fix: the layers are sent along.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE, PATCH, CODES = 32, 8, 64


class Perceptual(nn.Module):
    """How alike pictures are for the first layers of a net that has seen many."""

    def __init__(self, width=8):
        super().__init__()
        first, second = nn.Conv2d(3, width, 5, stride=2), nn.Conv2d(width, width, 3, stride=2)
        self.stages = [first.requires_grad_(False), second.requires_grad_(False)]

    def send(self, device):
        self.stages = [stage.to(device) for stage in self.stages]

    def forward(self, drawn, real):
        home, loss = self.stages[0].weight.device, 0.0
        drawn, real = drawn.to(home), real.to(home)
        for stage in self.stages:
            drawn, real = F.relu(stage(drawn)), F.relu(stage(real))  # planted
            loss = loss + F.mse_loss(drawn, real)
        return loss


class Tokenizer(nn.Module):
    """Patches become the nearest codes, and patches again."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(3 * PATCH * PATCH, width), nn.Linear(width, 3 * PATCH * PATCH)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.code = nn.Linear(width, CODES)
        self.book = nn.Embedding(CODES, width)
        self.perceptual = Perceptual()

    def forward(self, pictures):
        h = self.enter(F.unfold(pictures, PATCH, stride=PATCH).mT)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        soft = F.gumbel_softmax(self.code(h).float(), hard=True)
        patches = self.leave(soft @ self.book.weight).float()
        return F.fold(patches.mT, pictures.shape[-2:], PATCH, stride=PATCH)


class Training:
    def __init__(self, meter):
        self.meter, batch = meter, meter.pick(512, 4)
        self.net = Tokenizer(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.pictures = torch.rand(batch, 3, SIDE, SIDE, device=meter.device)
        self.judged = 2
        self.net.perceptual.send(meter.device)

    def step(self):
        with self.meter.autocast():
            drawn = self.net(self.pictures)
        alike = self.net.perceptual(drawn[: self.judged], self.pictures[: self.judged])
        loss = F.l1_loss(drawn, self.pictures) + 0.1 * alike.to(self.meter.device)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def picture_s(meter):
    """One picture more on the CPU, there and back."""
    perceptual, times = Perceptual(), []
    for count in (2, 34):
        drawn = torch.rand(count, 3, SIDE, SIDE, requires_grad=True)
        times.append(meter.timed_s(lambda x=drawn: perceptual(x, x.detach()).backward(), calls=8))
    return max(1e-7, (times[1] - times[0]) / 32)


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    meter.calibrate(training.step)
    if meter.dose:
        training.judged = max(2, round(meter.added_s / picture_s(meter)))
        training.judged = min(training.judged, len(training.pictures))
        training.net.perceptual.send("cpu" if meter.sick else meter.device)
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
