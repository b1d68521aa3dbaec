"""A small CNN on JPEGs: two loader workers for a heavy decode and augmentation.

A perfect diagnosis: the training waits for batches, the workers are busy on their cores all the time, and
there are too few of them for what a sample costs, while other cores are free. Fix: eight workers.
"""

import io
import time

import numpy as np
import torch
from meter import Meter
from PIL import Image, ImageEnhance, ImageFilter
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


def make_jpegs(count, side):
    rng = np.random.default_rng(0)
    files = []
    for _ in range(count):
        small = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        buffer = io.BytesIO()
        small.resize((side, side)).save(buffer, "JPEG", quality=85)
        files.append(buffer.getvalue())
    return files


class Pictures(Dataset):
    def __init__(self, files, augment_s):
        self.files, self.augment_s = files, augment_s

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        end_s = time.thread_time() + self.augment_s
        image = Image.open(io.BytesIO(self.files[index % len(self.files)])).convert("RGB")
        while time.thread_time() < end_s:
            image = ImageEnhance.Contrast(image.filter(ImageFilter.GaussianBlur(0.4))).enhance(1.05)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1), index % CLASSES


def build_model(width, depth):
    layers = [nn.Conv2d(3, width, 5, stride=2, padding=2)]
    for _ in range(depth):
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def main():
    meter = Meter(__doc__)
    side, batch = meter.pick(128, 32), meter.pick(64, 16)
    model = build_model(meter.pick(256, 24), meter.pick(8, 3)).to(meter.device)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def train_step(images, labels):
        images = images.to(meter.device, non_blocking=True).float().div(255)
        labels = labels.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    images = torch.randint(0, 256, (batch, 3, side, side), dtype=torch.uint8)
    if meter.gpu:
        images = images.pin_memory()
    labels = torch.randint(0, CLASSES, (batch,))
    meter.calibrate(lambda: train_step(images, labels))

    few, many = meter.pick((2, 8), (1, 2))
    workers = many if meter.fixed else few  # planted
    data = Pictures(make_jpegs(256, side), augment_s=few * meter.beside_s / batch)
    loader = DataLoader(
        data, batch_size=batch, shuffle=True, num_workers=workers, pin_memory=meter.gpu, drop_last=True
    )
    batches = iter(loader)
    next(batches)
    while meter.going_on():
        train_step(*next(batches))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
