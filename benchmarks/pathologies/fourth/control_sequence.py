"""Healthy control: a recommender of the next item, a masked transformer over what was clicked before.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class NextItem(nn.Module):
    def __init__(self, items, length, dim, heads, depth):
        super().__init__()
        self.item = nn.Embedding(items, dim)
        self.place = nn.Parameter(0.02 * torch.randn(length, dim))
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, clicked):
        h = self.encoder(self.item(clicked) + self.place, mask=self.mask, is_causal=True)
        return h @ self.item.weight.T


def main():
    meter = Meter(__doc__)
    rows, length, items = meter.pick((64, 256, 4000), (8, 16, 100))
    model = NextItem(items, length, *meter.pick((1024, 16, 4), (32, 2, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=meter.gpu)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    clicks = torch.randint(items, (32 * rows, length + 1), device=meter.device)

    def step():
        start = int(torch.randint(31 * rows, ()))
        clicked = clicks[start : start + rows]
        with meter.autocast():
            scores = model(clicked[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1).float(), clicked[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()

    meter.calibrate(step)
    while meter.going_on():
        step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
