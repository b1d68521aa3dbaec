"""Spores under the microscope, counted by a small convolutional net; workers turn and blur whole images.

There is a worker for every core, and each transforms an image in full before it is cropped. How often it
is blurred is the dose. A perfect diagnosis: no core is left for loading, and more workers would not help;
the work for a sample must become less (either line marked below). Fix: crop first.
"""

import os
from functools import reduce

import numpy as np
import torch
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

PLATE, CROP = 176, 40


def crop(image, at):
    return image[at : at + CROP, at : at + CROP]


def turned(image, quarter):
    return np.ascontiguousarray(np.rot90(image, quarter))


class Blur:
    """A few passes of a small kernel along each of both axes."""

    def __init__(self, passes):
        self.passes = passes

    def __call__(self, image):
        for _ in range(self.passes):
            image = (np.roll(image, 1, 0) + 2 * image + np.roll(image, -1, 0)) / 4  # planted
            image = (np.roll(image, 1, 1) + 2 * image + np.roll(image, -1, 1)) / 4  # planted
        return image


class Spores(Dataset):
    def __init__(self, transforms):
        self.transforms = transforms
        self.plates = np.random.default_rng(5).random((6, PLATE, PLATE), dtype=np.float32)

    def __len__(self):
        return 60_000

    def __getitem__(self, index):
        image = reduce(
            lambda image, transform: transform(image, index), self.transforms, self.plates[index % 6]
        )
        return torch.from_numpy(np.ascontiguousarray(image))[None], torch.tensor(index % 9).float()


def pipeline(passes, crop_first):
    blur = Blur(passes)
    steps = [lambda image, index: turned(image, index % 4), lambda image, _: blur(image)]
    steps.insert(0 if crop_first else 2, lambda image, index: crop(image, index % 100))
    return steps


def conv(inside, outside, stride=1):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, padding=1), nn.GroupNorm(4, outside), nn.SiLU()
    )


def counting_net(width=24):
    body = [conv(1, width), conv(width, width), conv(width, 2 * width, 2), conv(2 * width, 2 * width, 2)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 1), nn.Softplus())


def poisson(rate, count):
    return (rate[:, 0] - count * rate[:, 0].clamp(min=1e-4).log()).mean()


def main():
    meter, batch_size, cores = Meter(__doc__), 10, len(os.sched_getaffinity(0))
    model = counting_net().to(meter.device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)

    def train_on(images, counts):
        optimizer.zero_grad()
        poisson(model(images.to(meter.device)), counts.to(meter.device)).backward()
        optimizer.step()

    meter.calibrate(lambda: train_on(torch.rand(batch_size, 1, CROP, CROP), torch.ones(batch_size)))
    passes = 1
    if meter.dose:
        # All cores together have so much time for a batch, the training's own taken off.
        free_s = meter.healthy_s * (cores * (1 + meter.share) - 1)
        plate = np.ones((PLATE, PLATE), np.float32)
        pass_s = meter.timed_s(lambda: Blur(4)(plate), calls=10) / 4
        passes = max(1, round(free_s / batch_size / pass_s))
    spores = Spores(pipeline(passes, crop_first=not meter.sick))
    loader = DataLoader(spores, batch_size=batch_size, shuffle=True, num_workers=cores)
    batches = iter(loader)
    for _ in range(2 * cores):
        train_on(*next(batches))
    meter.going_on()
    for batch in batches:
        train_on(*batch)
        meter.ticked()
        if not meter.going_on():
            break
    meter.report(excess=True)
    del batches


if __name__ == "__main__":
    main()
