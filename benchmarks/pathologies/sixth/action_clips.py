"""Actions in video: to get at a clip, a worker decodes all frames since the last key frame.

How far the key frames are apart is the dose. A perfect diagnosis: the few workers of the config are busy all
the time and deliver too slowly, with cores free for more (the loader marked below). Fix: more workers.
"""

import zlib

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "data": {"frames": 4, "side": 32, "key_every": 4},
    "loader": {"num_workers": 1, "shuffle": True, "drop_last": True},
    "optimizer": {"lr": 1e-4, "weight_decay": 0.02},
    "actions": 20,
}


class Videos(Dataset):
    """Frames as compressed differences to the one before."""

    def __init__(self, frames, side, key_every):
        self.frames, self.side, self.key_every = frames, side, max(frames, key_every)
        rng = np.random.default_rng(0)
        moves = rng.integers(0, 3, (16, 3, side, side), np.uint8) * rng.integers(
            0, 2, (16, 1, side, 1), np.uint8
        )
        self.packets = [zlib.compress(move.tobytes(), 1) for move in moves]

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        shape, clip = (3, self.side, self.side), []
        picture = np.zeros(shape, np.uint8)
        for n in range(self.key_every):
            packet = self.packets[(index + n) % len(self.packets)]
            picture = picture + np.frombuffer(zlib.decompress(packet), np.uint8).reshape(shape)
            if n >= self.key_every - self.frames:
                clip.append(picture)
        return np.stack(clip, 1), index % CONFIG["actions"]


class Slow3d(nn.Module):
    def __init__(self, width, depth, actions):
        super().__init__()
        self.stem = nn.Conv3d(3, width, (1, 4, 4), stride=(1, 4, 4))
        self.space = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.time = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1, groups=4) for _ in range(depth))
        self.action = nn.Linear(width, actions)

    def forward(self, clips):
        h = self.stem(clips)
        b, c, t = h.shape[:3]
        h = h.transpose(1, 2).flatten(0, 1)
        for space in self.space:
            h = h + F.relu(space(h))
        h = h.mean((2, 3)).view(b, t, c).mT
        for time in self.time:
            h = h + F.relu(time(h))
        return self.action(h.mean(2))


def build(meter, config):
    model = Slow3d(*meter.pick((384, 8), (72, 10)), config["actions"]).to(meter.device)
    return model, torch.optim.AdamW(model.parameters(), fused=meter.gpu, **config["optimizer"])


def distance(meter, data, wanted_s):
    """Frames between key frames, for a clip in the wanted time."""
    times = []
    for far in (4, 24):
        videos = Videos(**{**data, "key_every": far})
        times.append(meter.timed_s(lambda v=videos: v[3], calls=20))
    each_s = (times[1] - times[0]) / 20
    return max(4, round(4 + (wanted_s - times[0]) / each_s))


def main():
    meter, config = Meter(__doc__), CONFIG
    batch = meter.pick(32, 4)
    config["data"]["side"] = meter.pick(64, 32)
    model, optimizer = build(meter, config)

    def training_step(clips, actions):
        clips = clips.to(meter.device, non_blocking=True).float() / 128 - 1
        with meter.autocast():
            scores = model(clips)
        loss = F.cross_entropy(scores.float(), actions.to(meter.device, non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    side, frames = config["data"]["side"], config["data"]["frames"]
    dark = torch.zeros(batch, 3, frames, side, side, dtype=torch.uint8)
    blank = blanks(meter, dark, torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: training_step(*blank))
    few, many = meter.pick((2, 12), (1, 2))
    if meter.dose:
        config["data"]["key_every"] = distance(meter, config["data"], few * meter.beside_s / batch)
    config["loader"].update(num_workers=few if meter.sick else many, pin_memory=meter.gpu)
    loader = DataLoader(Videos(**config["data"]), batch, **config["loader"])  # planted
    clips = iter(loader)
    training_step(*next(clips))
    while meter.going_on():
        with meter.injecting():
            batch = next(clips)
        training_step(*batch)
        meter.ticked()
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
