"""Healthy control: a ConvNeXt on uint8 images, eight lasting workers with a cheap crop, pinned memory.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class CroppedImages(Dataset):
    def __init__(self, side):
        generator = torch.Generator().manual_seed(0)
        shape = (512, 3, side + 8, side + 8)
        self.images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        self.side = side

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        top, left = divmod(i % 64, 8)
        image = self.images[i % 512, :, top : top + self.side, left : left + self.side]
        return (image.flip(-1) if i % 2 else image), i % 100


class Stage(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(dim, dim, 3, padding=1), nn.BatchNorm2d(dim)
        self.wide, self.narrow = nn.Conv2d(dim, 4 * dim, 1), nn.Conv2d(4 * dim, dim, 1)

    def forward(self, x):
        return x + self.narrow(nn.functional.relu(self.wide(self.norm(self.conv(x))), inplace=True))


def main():
    meter = Meter(__doc__)
    torch.backends.cudnn.benchmark = meter.gpu
    bs, side, dim, depth = meter.pick((256, 96, 384, 6), (8, 24, 8, 1))
    net = nn.Sequential(
        nn.Conv2d(3, dim, 4, stride=4), *(Stage(dim) for _ in range(depth)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(dim, 100),
    ).to(meter.device, memory_format=torch.channels_last)  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=meter.gpu)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=100_000)
    loader = DataLoader(
        CroppedImages(side), bs, num_workers=meter.pick(8, 1), pin_memory=meter.gpu, persistent_workers=True,
        prefetch_factor=4, drop_last=True,
    )  # fmt: skip

    def step(images, labels):
        images = images.to(meter.device, non_blocking=True).to(memory_format=torch.channels_last)
        labels = labels.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = nn.functional.cross_entropy(net(images.float() / 255), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach()

    batches = iter(loader)
    meter.calibrate(lambda: step(*next(batches)))
    while meter.going_on():
        loss = step(*next(batches))
        meter.ticked()
        if meter.ticks % 100 == 0:
            print(f"step {meter.ticks}: loss {loss.item():.3f}", flush=True)
    meter.report()


if __name__ == "__main__":
    main()
