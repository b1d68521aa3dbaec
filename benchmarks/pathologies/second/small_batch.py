"""A little vision transformer with a batch far too small for the card, and most of its memory free.

The time for an image is 1.3, 2 and 3 times that of the largest batch at doses 1 to 3. A tick is then shorter,
not longer: compare `samples_per_s`. A perfect diagnosis: the kernels are too small to fill the GPU (it is
launch-bound, or busy with little work), memory is free, a larger batch would do; the size is set at the line
marked below. Fix: the large batch.
"""

import torch
from meter import Meter
from torch import nn


class TinyViT(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, stride=8)
        layer = nn.TransformerEncoderLayer(
            width, 8, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patch(images).flatten(2).transpose(1, 2)
        return self.head(self.encoder(tokens).mean(1))


class Trainer:
    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.model = TinyViT(*meter.pick((512, 8), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=meter.gpu)
        self.images = torch.randn(meter.pick(1024, 16), 3, 64, 64, device=meter.device)
        self.labels = torch.randint(1000, (len(self.images),), device=meter.device)

    def step(self, batch: int) -> None:
        begin = int(torch.randint(len(self.images) - batch + 1, ()))
        rows = slice(begin, begin + batch)
        with self.meter.autocast():
            loss = nn.functional.cross_entropy(self.model(self.images[rows]), self.labels[rows])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def too_small(self, wanted: float) -> tuple[int, float]:
        """The first size, largest first, at which an image takes `wanted` times as long; the waste."""
        batch, image_s = len(self.images), self.meter.healthy_s / len(self.images)
        while batch > 1:
            batch = max(1, batch * 4 // 5)
            tick_s = self.meter.timed_s(lambda size=batch: self.step(size), calls=4)
            if tick_s >= wanted * batch * image_s:
                break
        return batch, tick_s - batch * image_s


def main() -> None:
    meter = Meter(__doc__)
    trainer = Trainer(meter)
    batch, wasted_s = len(trainer.images), 0.0
    meter.calibrate(lambda: trainer.step(batch))
    if meter.sick:
        batch, wasted_s = trainer.too_small(1 + meter.share)  # planted
    while meter.going_on():
        trainer.step(batch)
        meter.injected_s += wasted_s
        meter.ticked(samples=batch)
    meter.report()


if __name__ == "__main__":
    main()
