"""Species of plankton: photographs as JPEG, of which the net sees a thumbnail.

How large the photographs are is the dose. A perfect diagnosis: the few workers of the recipe are busy all the
time and deliver too slowly, with cores free for more (the loader marked below). Fix: more workers.
"""

import io

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

RECIPE = """
model.classes = 40
optim.lr = 0.00001
optim.momentum = 0.9
data.few = {few}
data.many = {many}
"""


def parsed(text):
    lines = (line.split(" = ") for line in text.strip().splitlines())
    return {key: float(value) if "." in value else int(value) for key, value in lines}


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x


def thumbnail(side):
    return lambda photo: photo.resize((side, side), Image.Resampling.BILINEAR)


def to_tensor(photo):
    return torch.from_numpy(np.array(photo)).permute(2, 0, 1)


def photograph(side):
    """Smooth blobs, as the microscope shows them."""
    rng = np.random.default_rng(side)
    coarse = Image.fromarray(rng.integers(0, 255, (12, 12, 3), np.uint8))
    kept = io.BytesIO()
    coarse.resize((side, side), Image.Resampling.BICUBIC).save(kept, "JPEG", quality=90)
    return kept.getvalue()


class Plankton(Dataset):
    def __init__(self, photo_side, transform, classes):
        self.photo, self.transform, self.classes = photograph(photo_side), transform, classes

    def __len__(self):
        return 200_000

    def __getitem__(self, index):
        with Image.open(io.BytesIO(self.photo)) as photo:
            return self.transform(photo.convert("RGB")), index % self.classes


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x):
        return x + F.relu(self.norm(self.conv(x)))


def resnet(width, depth, classes):
    blocks = [Bottleneck(width) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
    return nn.Sequential(nn.Conv2d(3, width, 4, stride=4), *blocks, *head)


def photo_side(meter, transform, wanted_s):
    """Decoding costs in proportion to the pixels."""
    times = []
    for side in (96, 384):
        plankton = Plankton(side, transform, 40)
        times.append(meter.timed_s(lambda p=plankton: p[0], calls=20))
    each_s = (times[1] - times[0]) / (384**2 - 96**2)
    return max(96, round((96**2 + max(0.0, wanted_s - times[0]) / each_s) ** 0.5))


def main():
    meter = Meter(__doc__)
    few, many = meter.pick((2, 12), (1, 2))
    recipe = parsed(RECIPE.format(few=few, many=many))
    batch, side, classes = *meter.pick((64, 128), (4, 64)), recipe["model.classes"]
    net = resnet(*meter.pick((384, 8), (64, 8)), classes).to(meter.device)
    optimizer = torch.optim.SGD(net.parameters(), recipe["optim.lr"], recipe["optim.momentum"])

    def learn(photos, kinds):
        photos = photos.to(meter.device, non_blocking=True).float().div_(255)
        with meter.autocast():
            scores = net(photos)
        loss = F.cross_entropy(scores.float(), kinds.to(meter.device, non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    dark = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    blank = blanks(meter, dark, torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    transform = Compose(thumbnail(side), to_tensor)
    large = photo_side(meter, transform, few * meter.beside_s / batch) if meter.dose else 96
    workers = recipe["data.few"] if meter.sick else recipe["data.many"]
    plankton = Plankton(large, transform, classes)
    loader = DataLoader(plankton, batch, True, num_workers=workers, pin_memory=meter.gpu)  # planted
    photos = iter(loader)
    learn(*next(photos))
    while meter.going_on():
        with meter.injecting():
            arrived = next(photos)
        learn(*arrived)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
