"""A language model of proteins with the batch that once fitted on a smaller card.

A protein takes 1.18, 1.67 and 2.5 times as long as with the largest batch at doses 1 to 3; compare
`samples_per_s`. A perfect diagnosis: the batch is too small for the GPU and most of its memory is free; its
size is used at the line marked below. Fix: the large batch.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

ACIDS = 24


@dataclass(frozen=True)
class Recipe:
    batch: int
    length: int
    dim: int
    depth: int
    hidden: float = 0.15


class ProteinModel(nn.Module):
    def __init__(self, recipe):
        super().__init__()
        dim = recipe.dim
        self.acid = nn.Embedding(ACIDS, dim)
        make = nn.TransformerEncoderLayer
        self.layers = nn.ModuleList(
            make(dim, max(2, dim // 64), 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(recipe.depth)
        )
        self.guess = nn.Linear(dim, ACIDS)

    def forward(self, acids):
        h = self.acid(acids)
        for layer in self.layers:
            h = layer(h)
        return self.guess(h).float()


class Pretraining:
    def __init__(self, meter, recipe):
        self.meter, self.recipe = meter, recipe
        self.model = ProteinModel(recipe).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=meter.gpu)
        self.proteins = torch.randint(1, ACIDS, (2 * recipe.batch, recipe.length), device=meter.device)

    def step(self, recipe=None):
        recipe = recipe or self.recipe
        acids = self.proteins[torch.randint(len(self.proteins), (recipe.batch,), device=self.meter.device)]
        masked = acids.masked_fill(torch.rand_like(acids, dtype=torch.float) < recipe.hidden, 0)
        with self.meter.autocast():
            guess = self.model(masked)
        loss = F.cross_entropy(guess.flatten(0, 1), acids.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def on_a_small_card(training, wanted):
    """The first recipe, from the largest down, whose proteins take `wanted` times as long; the waste."""
    meter, recipe = training.meter, training.recipe
    each_s = meter.healthy_s / recipe.batch
    while recipe.batch > 1:
        recipe = replace(recipe, batch=max(1, recipe.batch * 4 // 5))
        tick_s = meter.timed_s(lambda r=recipe: training.step(r), calls=4)
        if tick_s >= wanted * recipe.batch * each_s:
            break
    return recipe, max(0.0, tick_s - recipe.batch * each_s)


def main():
    meter = Meter(__doc__)
    recipe, wasted_s = Recipe(*meter.pick((512, 128, 512, 8), (16, 16, 48, 2))), 0.0
    training = Pretraining(meter, recipe)
    meter.calibrate(training.step)
    if meter.sick:
        recipe, wasted_s = on_a_small_card(training, 1 + meter.share)
    while meter.going_on():
        training.step(recipe)  # planted
        meter.injected_s += wasted_s
        meter.ticked(samples=recipe.batch)
    meter.report()


if __name__ == "__main__":
    main()
