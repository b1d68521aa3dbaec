"""Wind turbines' sensor logs, which arrive at each worker through a pipe that a transfer tool fills, slowly.

The tool is a process of this script, which writes a window to a named pipe now and then; how late is the
dose. A perfect diagnosis: the workers wait for storage and use no core (the read marked below). Fix: the
logs as a file on the local disk.
"""

import multiprocessing
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

WORKERS, SENSORS, AHEAD = 4, 64, 24


def fill(path, window, late_s):
    """Until nobody reads any more."""
    try:
        with path.open("wb", buffering=0) as pipe:
            while True:
                time.sleep(late_s)
                pipe.write(window)
    except BrokenPipeError:
        pass


def transfer(paths, window, late_s):
    threads = [threading.Thread(target=fill, args=(path, window, late_s)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def standardised(raw, steps):
    window = np.frombuffer(raw, np.float32).reshape(steps, SENSORS)
    return (window - window.mean(0)) / (window.std(0) + 1e-3)


class TurbineLogs(IterableDataset):
    """Windows without end, from `paths[n]` for worker n, or all from the one file there is."""

    def __init__(self, paths, steps):
        self.paths, self.steps = paths, steps

    def __iter__(self):
        path, size = self.paths[get_worker_info().id % len(self.paths)], 4 * SENSORS * self.steps
        with path.open("rb", buffering=0) as log:
            while True:
                raw = b""
                while len(raw) < size:
                    part = log.read(size - len(raw))  # planted
                    if not part:
                        log.seek(0)
                    raw += part
                yield standardised(raw, self.steps)


class Patched(nn.Module):
    """A forecaster that mixes steps and sensors by turns."""

    def __init__(self, steps, width, depth):
        super().__init__()
        self.past = steps - AHEAD
        self.enter = nn.Linear(self.past, width)
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.sensors = nn.ModuleList(nn.Linear(SENSORS, SENSORS) for _ in range(depth))
        self.ahead = nn.Linear(width, AHEAD)

    def forward(self, past):
        h = self.enter(past.mT)
        for mix, sensors in zip(self.mix, self.sensors, strict=True):
            h = h + sensors(F.gelu(mix(h)).mT).mT
        return self.ahead(h).mT


def main():
    meter = Meter(__doc__)
    batch, steps = meter.pick((64, 512), (4, 96))
    model = Patched(steps, *meter.pick((6144, 5), (256, 4))).to(meter.device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-5, fused=meter.gpu)

    def fit(windows):
        windows = windows.to(meter.device, non_blocking=True)
        with meter.autocast():
            ahead = model(windows[:, :-AHEAD])
        loss = F.smooth_l1_loss(ahead.float(), windows[:, -AHEAD:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    (blank,) = blanks(meter, torch.zeros(batch, steps, SENSORS))
    meter.calibrate(lambda: fit(blank))
    workers = meter.pick(WORKERS, 2)
    logged = np.random.default_rng(0).standard_normal((64, steps, SENSORS), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        tool, paths = None, [Path(folder, "turbines.f32")]
        paths[0].write_bytes(logged.tobytes())
        if meter.sick:
            paths = [Path(folder, f"pipe{n}") for n in range(workers)]
            for path in paths:
                os.mkfifo(path)
            window = logged[0].tobytes()
            own_s = meter.timed_s(lambda: standardised(window, steps), calls=20)
            args = (paths, window, max(1e-4, workers * meter.beside_s / batch - own_s))
            tool = multiprocessing.get_context("fork").Process(target=transfer, args=args, daemon=True)
            tool.start()
        loader = DataLoader(TurbineLogs(paths, steps), batch, num_workers=workers, pin_memory=meter.gpu)
        stream = iter(loader)
        for _ in range(workers):
            fit(next(stream))
        while meter.going_on():
            fit(next(stream))
            meter.ticked()
        meter.report(excess=True)
        del stream
        if tool:
            tool.terminate()


if __name__ == "__main__":
    main()
