"""Arrivals of earthquakes in seismograms, picked by a U-shaped net; traces come from an archive by TCP.

There is no DataLoader: a thread of the project's own fills a queue. How slow the line to the archive is
is the dose. A perfect diagnosis: the thread that reads waits for the archive, and cores are idle (either
line marked below). Fix: the archive was copied to a file, which is mapped.
"""

import multiprocessing
import queue
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SAMPLES, CHANNELS, TRACES, BATCH, PIECES = 256, 3, 64, 12, 4
REQUEST = struct.Struct("!II")


def archive_server(listening, traces, wait_s):
    while True:
        line, _ = listening.accept()
        with line:
            while asked := line.recv(REQUEST.size, socket.MSG_WAITALL):
                begin, count = REQUEST.unpack(asked)
                time.sleep(wait_s.value)
                line.sendall(traces[begin : begin + count].tobytes())


class ArchiveClient:
    def __init__(self, port):
        self.line = socket.create_connection(("127.0.0.1", port))
        self.line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self, begin, count):
        self.line.sendall(REQUEST.pack(begin, count))
        size = count * CHANNELS * SAMPLES * 4
        raw = self.line.recv(size, socket.MSG_WAITALL)  # planted
        return np.frombuffer(raw, np.float32).reshape(count, CHANNELS, SAMPLES)


class MappedArchive:
    def __init__(self, path):
        self.traces = np.memmap(path, np.float32, "r").reshape(TRACES, CHANNELS, SAMPLES)

    def read(self, begin, count):
        return self.traces[begin : begin + count]


def read_batch(archive, rng):
    share = BATCH // PIECES
    pieces = [archive.read(rng.integers(0, TRACES - share), share) for _ in range(PIECES)]  # planted
    traces = np.concatenate(pieces)
    return torch.from_numpy(traces), torch.from_numpy(np.abs(traces).argmax(2)[:, 0])


class Prefetcher(threading.Thread):
    def __init__(self, archive, depth=3):
        super().__init__(daemon=True)
        self.archive, self.ready, self.stopped = archive, queue.Queue(depth), False

    def run(self):
        rng = np.random.default_rng(0)
        while not self.stopped:
            batch = read_batch(self.archive, rng)
            while not self.stopped:
                try:
                    self.ready.put(batch, timeout=0.1)
                    break
                except queue.Full:
                    continue

    def __next__(self):
        return self.ready.get()


class PhasePicker(nn.Module):
    def __init__(self, width=56):
        super().__init__()
        self.down1, self.down2 = nn.Conv1d(CHANNELS, width, 7, 2, 3), nn.Conv1d(width, 2 * width, 7, 2, 3)
        self.middle = nn.LSTM(2 * width, width, bidirectional=True, batch_first=True)
        self.up1 = nn.ConvTranspose1d(2 * width, width, 4, 2, 1)
        self.up2 = nn.ConvTranspose1d(2 * width, 1, 4, 2, 1)

    def forward(self, traces):
        high = F.gelu(self.down1(traces))
        low, _ = self.middle(F.gelu(self.down2(high)).transpose(1, 2))
        up = F.gelu(self.up1(low.transpose(1, 2)))
        return self.up2(torch.cat([up, high], 1))[:, 0]


def main():
    meter = Meter(__doc__)
    model = PhasePicker().to(meter.device)
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)

    def optimize(traces, arrivals):
        scores = model(traces.to(meter.device))
        loss = F.cross_entropy(scores, arrivals.to(meter.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(lambda: optimize(torch.rand(BATCH, CHANNELS, SAMPLES), torch.arange(BATCH)))
    traces = np.random.default_rng(0).normal(size=(TRACES, CHANNELS, SAMPLES)).astype(np.float32)
    context = multiprocessing.get_context("fork")
    wait_s, listening = context.Value("d", 0.0), socket.create_server(("127.0.0.1", 0))
    server = context.Process(target=archive_server, args=(listening, traces, wait_s), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traces.f32"
        traces.tofile(path)
        archive = ArchiveClient(listening.getsockname()[1]) if meter.sick else MappedArchive(path)
        if meter.sick:
            rng = np.random.default_rng(1)
            own_s = meter.timed_s(lambda: read_batch(archive, rng), calls=30)
            wait_s.value = max(1e-4, (meter.beside_s - own_s) / PIECES - 8e-5)
        prefetcher = Prefetcher(archive)
        prefetcher.start()
        for _ in range(4):
            optimize(*next(prefetcher))
        while meter.going_on():
            with meter.injecting():
                batch = next(prefetcher)
            optimize(*batch)
            meter.ticked()
        meter.report()
        prefetcher.stopped = True
        prefetcher.join()
    server.terminate()


if __name__ == "__main__":
    main()
