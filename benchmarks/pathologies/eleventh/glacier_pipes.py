"""Edges of glaciers from the air; each worker reads a tar archive through a pipe from a download tool.

The tool is a program of its own, started by the worker as `curl` would be; how slowly it fetches is the
dose. A perfect diagnosis: the workers wait for storage and use no core (either line marked below). Fix: the
archive is on the local disk.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

SCENES = 24
FETCH = """
import sys, time
path, size, late_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
whole = open(path, "rb").read()
try:
    while True:
        for start in range(0, len(whole) // size * size, size):
            time.sleep(late_s)
            sys.stdout.buffer.write(whole[start : start + size])
            sys.stdout.buffer.flush()
except BrokenPipeError:
    sys.stderr.close()
"""


def pack(path, scenes):
    """An archive without an end; what a scene takes of it."""
    with path.open("wb") as out:
        for number, scene in enumerate(scenes):
            info = tarfile.TarInfo(f"{number:06d}.u8")
            info.size = len(scene)
            blocks = io.BytesIO(info.tobuf() + scene)
            out.write(blocks.getvalue() + bytes(-len(scene) % 512))
    return path.stat().st_size // len(scenes)


class Shard(IterableDataset):
    def __init__(self, path, size, side, late_s):
        self.path, self.size, self.side, self.late_s = path, size, side, late_s

    def members_of_pipe(self):
        command = [sys.executable, "-c", FETCH, self.path, self.size, self.late_s]
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE) as tool:
            shard = tarfile.open(fileobj=tool.stdout, mode="r|")  # noqa: SIM115
            while (member := shard.next()) is not None:  # planted
                yield shard.extractfile(member).read()  # planted
                shard.members.clear()

    def members_of_file(self):
        while True:
            with tarfile.open(self.path, "r:") as shard:
                for member in shard:
                    yield shard.extractfile(member).read()

    def __iter__(self):
        for raw in self.members_of_pipe() if self.late_s else self.members_of_file():
            scene = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(4, self.side, self.side)
            yield scene[:3], scene[3]


class EdgeNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, width, 4, stride=4), nn.ConvTranspose2d(width, 1, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, scenes):
        h = self.down(scenes)
        for conv in self.body:
            h = F.leaky_relu(h + conv(h), 0.1)
        return self.up(h)[:, 0].float()


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (4, 64))
    net = EdgeNet(*meter.pick((384, 7), (56, 6))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def outline(scenes, edges):
        scenes, edges = (part.to(meter.device, non_blocking=True) for part in (scenes, edges))
        with meter.autocast():
            scores = net(scenes.float().div_(255).contiguous(memory_format=torch.channels_last))
        loss = F.binary_cross_entropy_with_logits(scores, edges.float().div_(255))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    scenes = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    blank = blanks(meter, scenes, scenes[:, 0].clone())
    meter.calibrate(lambda: outline(*blank))
    workers, rng = meter.pick(8, 2), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "glaciers.tar")
        size = pack(path, [rng.bytes(4 * side * side) for _ in range(SCENES)])
        late_s = max(1e-4, workers * meter.beside_s / batch - 0.0004) if meter.sick else 0.0
        loader = DataLoader(Shard(path, size, side, late_s), batch, num_workers=workers, pin_memory=meter.gpu)
        stream = iter(loader)
        for _ in range(2 * workers):
            outline(*next(stream))
        while meter.going_on():
            with meter.injecting():
                fetched = next(stream)
            outline(*fetched)
            meter.ticked()
        meter.report(excess=meter.gpu)
        del stream


if __name__ == "__main__":
    main()
