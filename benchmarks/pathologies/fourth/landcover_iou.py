"""A mixer that labels land cover, and looks at its score on the whole validation set every few steps.

How often is the dose. A perfect diagnosis: training stops for evaluations much too often (marked below).
Fix: an evaluation every thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

COVERS, BANDS, VALIDATION = 8, 12, 12


class Mixer(nn.Module):
    def __init__(self, patches, dim, depth):
        super().__init__()
        self.enter = nn.Linear(BANDS * 16, dim)
        self.across = nn.ModuleList(nn.Linear(patches, patches) for _ in range(depth))
        self.within = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))
            for _ in range(depth)
        )
        self.leave = nn.Linear(dim, COVERS * 16)

    def forward(self, patches):
        h = self.enter(patches)
        for across, within in zip(self.across, self.within, strict=True):
            h = h + across(h.transpose(1, 2)).transpose(1, 2)
            h = h + within(h)
        return self.leave(h).unflatten(-1, (16, COVERS))


@torch.no_grad()
def intersection_over_union(model, scenes, meter):
    model.eval()
    table = torch.zeros(COVERS, COVERS, device=meter.device)
    for patches, cover in scenes:
        with meter.autocast():
            guess = model(patches).argmax(-1)
        pairs = (
            F.one_hot(cover, COVERS).flatten(0, 2).T.float() @ F.one_hot(guess, COVERS).flatten(0, 2).float()
        )
        table += pairs
    model.train()
    hit = table.diagonal()
    return (hit / (table.sum(0) + table.sum(1) - hit).clamp(min=1)).mean().item()


def scene(batch, patches, device):
    return (
        torch.randn(batch, patches, BANDS * 16, device=device),
        torch.randint(COVERS, (batch, patches, 16), device=device),
    )


def main():
    meter = Meter(__doc__)
    batch, patches, dim, depth = meter.pick((32, 256, 1536, 5), (4, 32, 64, 2))
    model = Mixer(patches, dim, depth).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.05, fused=meter.gpu)
    train_set = [scene(batch, patches, meter.device) for _ in range(4)]
    validation = [scene(batch, patches, meter.device) for _ in range(VALIDATION)]

    def learn(inputs, cover):
        with meter.autocast():
            logits = model(inputs)
        loss = F.cross_entropy(logits.float().flatten(0, 2), cover.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: learn(*train_set[0]))
    scores, every = [], 1000
    if meter.sick:
        once_s = meter.timed_s(lambda: intersection_over_union(model, validation, meter))
        every = max(1, round(once_s / meter.added_s))
    while meter.going_on():
        learn(*train_set[meter.ticks % len(train_set)])
        meter.ticked()
        if meter.ticks % every == 0:
            scores.append(intersection_over_union(model, validation, meter))  # planted
    meter.report(excess=True)


if __name__ == "__main__":
    main()
