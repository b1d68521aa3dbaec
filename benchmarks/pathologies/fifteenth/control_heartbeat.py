"""Healthy control: will a bridge be icy? A net over weather stations that look at each other, and helpers.

Tempting: a thread that writes a heartbeat, and a pool that saves weights in the background; but the one
sleeps nearly always, and the other has little to do. A perfect diagnosis: healthy, nothing to mend. The
dose is taken and does nothing; there is no planted line.
"""

import concurrent.futures
import json
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATIONS, READINGS, BATCH, SAVE_EVERY = 16, 10, 24, 300


class Heartbeat:
    """So that somebody outside may see that the run is alive."""

    def __init__(self, path, meter, every_s=0.25):
        self.path, self.meter, self.every_s = path, meter, every_s
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)

    def beat(self):
        while not self.stopped.wait(self.every_s):
            self.path.write_text(json.dumps({"time": time.time(), "step": self.meter.ticks}))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.stopped.set()
        self.thread.join()


class BackgroundSaver:
    def __init__(self, path):
        self.path, self.pool, self.pending = path, concurrent.futures.ThreadPoolExecutor(1), None

    def save(self, module):
        if self.pending is None or self.pending.done():
            copy = {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}
            self.pending = self.pool.submit(torch.save, copy, self.path)


class StationNet(nn.Module):
    def __init__(self, size=96):
        super().__init__()
        self.enter, self.where = nn.Linear(READINGS, size), nn.Parameter(torch.randn(STATIONS, size) * 0.1)
        self.look = nn.MultiheadAttention(size, 4, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.SiLU(), nn.Linear(4 * size, size))
        self.icy = nn.Linear(size, 1)

    def forward(self, readings):
        h = self.enter(readings) + self.where
        for _ in range(2):
            near = self.norms[0](h)
            h = h + self.look(near, near, near, need_weights=False)[0]
            h = h + self.mlp(self.norms[1](h))
        return self.icy(h)[:, :, 0]


def main():
    meter = Meter(__doc__)
    net = StationNet().to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-5)
    readings = torch.randn(30, BATCH, STATIONS, READINGS, device=meter.device)
    icy = (readings.mean(3) < 0).float()

    def step():
        number = meter.ticks % len(readings)
        loss = F.binary_cross_entropy_with_logits(net(readings[number]), icy[number])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(step)
    with tempfile.TemporaryDirectory() as folder:
        saver = BackgroundSaver(Path(folder) / "stations.pt")
        with Heartbeat(Path(folder) / "alive.json", meter):
            while meter.going_on():
                step()
                meter.ticked()
                if meter.ticks % SAVE_EVERY == 0:
                    saver.save(net)
            meter.report()
        saver.pool.shutdown()


if __name__ == "__main__":
    main()
