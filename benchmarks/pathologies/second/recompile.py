"""A compiled sequence model that is given a new length every few steps, and compiles again for each.

`dynamic=False`, and a high limit on recompilations, as a hasty fix on a forum says. The back end is
`aot_eager`, so that no compiler is needed and one compilation is short. A perfect diagnosis: the GPU is
idle while torch compiles again, for shapes that change, at the call marked below. Fix: every batch is
padded to one length.
"""

import torch
import torch._dynamo
from meter import Meter
from torch import nn


class Mixer(nn.Module):
    """Tokens are shifted and mixed by wide layers."""

    def __init__(self, words, width, depth):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU()))
            self.layers.append(nn.Linear(4 * width, width))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embed(tokens)
        for wide, narrow in zip(self.layers[::2], self.layers[1::2], strict=True):
            x = x + narrow(wide(x.roll(1, dims=1)))
        return nn.functional.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def lengths(longest, every):
    """Mostly the full length; each `every`-th batch one that was not there before."""
    count = 0
    while True:
        count += 1
        yield longest - count // every if every and count % every == 0 else longest


def allow_many():
    config = torch._dynamo.config
    for limit in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(config, limit):
            setattr(config, limit, 100_000)


def main():
    meter = Meter(__doc__)
    allow_many()
    words, longest, batch = meter.pick((2048, 1024, 48), (128, 256, 4))
    model = Mixer(words, *meter.pick((768, 6), (32, 2))).to(meter.device)
    compiled = torch.compile(model, dynamic=False, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=meter.gpu)

    def step(length):
        tokens = torch.randint(words, (batch, length), device=meter.device)
        with meter.autocast():
            loss = compiled(tokens)  # planted
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    healthy_s = meter.calibrate(lambda: step(longest))
    unseen = iter(range(8, 64))
    compile_s = max(meter.timed_s(lambda: step(next(unseen)), calls=2), 1e-3)
    every = max(1, round(compile_s / (meter.share * healthy_s))) if meter.sick else 0
    for length in lengths(longest, every):
        if not meter.going_on():
            break
        step(length)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
