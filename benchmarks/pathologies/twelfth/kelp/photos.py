"""Photographs of the sea floor, as PNG files."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

WIDE, FILES = 160, 24


def write_photos(folder, rows):
    rng = np.random.default_rng(0)
    folder = Path(folder, f"rows-{rows}")
    folder.mkdir(exist_ok=True)
    slope = np.linspace(0, 120, WIDE)[None, :, None]
    for number in range(FILES):
        pixels = (slope + rng.integers(0, 100, (rows, WIDE, 3))).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number % 9}-{number:03d}.png", compress_level=1)
    return folder


class Photos(Dataset):
    def __init__(self, folder, side):
        self.paths, self.side = sorted(Path(folder).glob("*.png")), side

    def __len__(self):
        return 200_000

    def __getitem__(self, index):
        path = self.paths[index % len(self.paths)]
        with Image.open(path) as photo:
            photo = photo.convert("RGB").resize((self.side, self.side), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(photo)).permute(2, 0, 1), int(path.name[0])
