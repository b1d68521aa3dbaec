"""Two faults: a loader with too few workers for its blur, and a checkpoint too often.

About two thirds of the injected time are the loader's, one third the checkpoints'. A perfect diagnosis
names both: first too few workers (the count, first marked line), then checkpoints too often (second). Fix:
both mended.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from meter import Meter
from PIL import Image, ImageFilter
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Blurred(Dataset):
    def __init__(self, side, blur_s):
        self.side, self.blur_s = side, blur_s

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        end_s = time.thread_time() + self.blur_s
        pixels = np.random.default_rng(index).integers(0, 256, (self.side, self.side, 3), dtype=np.uint8)
        image = Image.fromarray(pixels)
        while time.thread_time() < end_s:
            image = image.filter(ImageFilter.GaussianBlur(0.5))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def autoencoder(width, depth):
    layers = [nn.Conv2d(3, width, 2, stride=2)]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 2, stride=2))


def main():
    meter = Meter(__doc__)
    side, batch = meter.pick((96, 64), (32, 16))
    model = autoencoder(*meter.pick((384, 6), (16, 3))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=meter.gpu)

    def step(pixels):
        pixels = pixels.to(meter.device, non_blocking=True).float() / 255
        with meter.autocast():
            loss = (model(pixels) - pixels).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    still = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    healthy_s = meter.calibrate(lambda: step(still))
    few, many = meter.pick((2, 8), (1, 2))
    blur_s = few * (1 + 2 / 3 * meter.share) * healthy_s / batch if meter.dose else 0.0
    workers = few if meter.sick else many  # planted
    loader = DataLoader(Blurred(side, blur_s), batch, num_workers=workers, pin_memory=meter.gpu)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.pt")

        def save():
            torch.save({"model": model.state_dict(), "adam": optimizer.state_dict()}, file)  # planted

        save_s = meter.timed_s(save)
        every = max(1, round(save_s / (meter.share / 3 * healthy_s))) if meter.sick else 100_000
        batches = iter(loader)
        next(batches)
        while meter.going_on():
            loss = step(next(batches))
            meter.ticked()
            if meter.ticks % every == 0:
                print(f"step {meter.ticks}  loss {loss.item():.4f}", flush=True)
                save()
        meter.report(excess=True)


if __name__ == "__main__":
    main()
