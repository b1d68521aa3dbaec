"""Two faults: sentences are judged by a reward model that stayed on the CPU, and the run is saved often.

Each takes three quarters of a dose. A perfect diagnosis names both: a part of the model on the CPU (first
marked line), and checkpoints much too often (second). Fix: the reward model on the GPU, and a checkpoint at
the end.
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, VOCABULARY, WORDS, TRAITS = 0.75, 2000, 32, 64


class RewardModel(nn.Module):
    """How much would somebody like this sentence?"""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow, self.like = nn.Linear(TRAITS, 384), nn.Linear(384, 384), nn.Linear(384, 1)
        self.requires_grad_(False)

    def forward(self, traits):
        h = F.gelu(self.wide(traits))
        h = F.gelu(self.narrow(h))
        return self.like(h)[:, 0]


class Writer(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.words, self.enter = nn.Embedding(VOCABULARY, TRAITS), nn.Linear(TRAITS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.next, self.traits = nn.Linear(width, VOCABULARY), nn.Linear(width, TRAITS)

    def forward(self, words):
        h = self.words(words)
        h = self.enter(h + 0.5 * h.roll(1, 1))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.next(h), self.traits(h)


class Finetuning:
    def __init__(self, meter):
        self.meter, self.sentences = meter, meter.pick(256, 8)
        self.writer = Writer(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.writer.parameters(), 1e-5, fused=meter.gpu)
        self.words = torch.randint(VOCABULARY, (self.sentences, WORDS), device=meter.device)
        self.judged = 32

    @torch.no_grad()
    def judge(self, model, traits):
        traits = traits.detach().float().flatten(0, 1)
        traits = traits.repeat(-(-self.judged // len(traits)), 1)[: self.judged]
        reward = model(traits.to(model.like.weight.device))  # planted
        return reward.to(self.meter.device).mean().sigmoid()

    def step(self, model):
        with self.meter.autocast():
            scores, traits = self.writer(self.words)
        weight = 0.5 + self.judge(model, traits)
        loss = weight * F.cross_entropy(scores[:, :-1].flatten(0, 1).float(), self.words[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Keeper:
    """The writer as it is now, and the best one by its reward."""

    def __init__(self, folder, writer):
        self.file, self.writer, self.every = Path(folder, "writer.pt"), writer, 1_000_000

    def save(self):
        torch.save(self.writer.state_dict(), self.file)  # planted

    def after(self, step):
        if step % self.every == 0:
            self.save()


def word_s(meter, model):
    """One word more to judge, on the CPU."""
    times = []
    with torch.no_grad():
        for count in (256, 4352):
            traits = torch.randn(count, TRAITS)
            times.append(meter.timed_s(lambda t=traits: model(t), calls=8))
    return max(1e-8, (times[1] - times[0]) / 4096)


def main():
    meter = Meter(__doc__)
    run, stayed, moved = Finetuning(meter), RewardModel(), RewardModel().to(meter.device)
    meter.calibrate(lambda: run.step(moved))
    part_s = PART * meter.added_s
    if meter.dose:
        run.judged = max(32, round(part_s / word_s(meter, stayed)))
    model = stayed if meter.sick else moved
    with tempfile.TemporaryDirectory() as folder:
        keeper = Keeper(folder, run.writer)
        if meter.sick:
            keeper.every = max(1, round(meter.timed_s(keeper.save, calls=2) / part_s))
        while meter.going_on():
            run.step(model)
            meter.ticked()
            keeper.after(meter.ticks)
        meter.report(excess=True)


if __name__ == "__main__":
    main()
