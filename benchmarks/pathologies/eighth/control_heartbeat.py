"""Healthy control: drums become notes by a net; threads beside the training beat, watch and write.

Tempting: three Python threads, one of which writes the weights; but they rest nearly all the time, and what
they do takes a moment. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing;
there is no planted line.
"""

import json
import tempfile
import threading
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BINS, DRUMS = 80, 10


class Every(threading.Thread):
    """Calls something, again and again, with long rests."""

    def __init__(self, rest_s, call):
        super().__init__(daemon=True)
        self.rest_s, self.call, self.over = rest_s, call, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.rest_s):
            self.call()

    def close(self):
        self.over.set()
        self.join()


class DrumNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.notes = nn.Linear(BINS, width), nn.Linear(width, DRUMS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, frames):
        h = self.enter(frames)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.notes(h).float()


class Studio:
    def __init__(self, meter, folder):
        self.meter, self.folder, rows = meter, Path(folder), meter.pick(8192, 128)
        self.net = DrumNet(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 1e-4, momentum=0.9, fused=meter.gpu)
        self.frames = torch.rand(rows, BINS, device=meter.device)
        self.notes = torch.randint(2, (rows, DRUMS), device=meter.device).float()

    def step(self):
        with self.meter.autocast():
            scores = self.net(self.frames)
        loss = F.binary_cross_entropy_with_logits(scores, self.notes)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def beat(self):
        (self.folder / "alive").write_text(str(time.time()))

    def watch(self):
        state = {"ticks": self.meter.ticks, "threads": threading.active_count()}
        (self.folder / "state.json").write_text(json.dumps(state))

    def write_head(self):
        """The last layer is what others load."""
        torch.save(self.net.notes.weight.detach().clone(), self.folder / "head.pt")


def main():
    meter = Meter(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        studio = Studio(meter, folder)
        meter.calibrate(studio.step)
        threads = [Every(0.5, studio.beat), Every(0.7, studio.watch), Every(2.0, studio.write_head)]
        while meter.going_on():
            studio.step()
            meter.ticked()
        meter.report()
        for thread in threads:
            thread.close()


if __name__ == "__main__":
    main()
