"""Pulsars in the noise of a radio telescope; recordings lie on another machine, and are read block by block.

The file server is a process of its own behind a socket; each block is asked for when the one before has come.
How late a block comes is the dose. A perfect diagnosis: the workers wait for storage and use no core (any
line marked below). Fix: the recordings are copied to the local disk.
"""

import multiprocessing
import os
import socket
import socketserver
import struct
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH, RECORDINGS, BLOCK, ASKED = 512, 10, 16_384, struct.Struct("!HQ")


class FileServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads, request_queue_size = True, 64


class Blocks(socketserver.BaseRequestHandler):
    def handle(self):
        files = {}
        while asked := self.request.recv(ASKED.size, socket.MSG_WAITALL):
            number, begin = ASKED.unpack(asked)
            if number not in files:
                files[number] = os.open(self.server.folder / f"{number}.raw", os.O_RDONLY)
            time.sleep(self.server.late_s)
            self.request.sendall(os.pread(files[number], BLOCK, begin))


@contextmanager
def far_away(folder, late_s):
    address = str(folder / f"server-{late_s:.6f}")
    server = FileServer(address, Blocks)
    server.folder, server.late_s = folder, late_s
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    try:
        yield address
    finally:
        process.terminate()
        process.join()
        server.server_close()


class FarDisk:
    def __init__(self, address):
        self.address, self.line = address, None

    def read(self, number, begin, size):
        if self.line is None:
            self.line = socket.socket(socket.AF_UNIX)
            self.line.connect(self.address)
        self.line.sendall(ASKED.pack(number, begin))
        return self.line.recv(size, socket.MSG_WAITALL)  # planted


class NearDisk:
    def __init__(self, folder):
        self.folder = folder

    def read(self, number, begin, size):
        with (self.folder / f"{number}.raw").open("rb") as file:
            file.seek(begin)
            return file.read(size)


class Recordings(Dataset):
    """An item is a whole batch."""

    def __init__(self, disk, rows):
        self.disk, self.rows, self.size = disk, rows, rows * LENGTH

    def __len__(self):
        return 1_000_000

    def block(self, index, begin):
        return self.disk.read(index % RECORDINGS, begin, min(BLOCK, self.size - begin))

    def __getitem__(self, index):
        blocks = [self.block(index, begin) for begin in range(0, self.size, BLOCK)]  # planted
        voltage = np.frombuffer(b"".join(blocks), np.int8).reshape(self.rows, LENGTH)
        return torch.from_numpy(voltage.copy())


class PulsarNet(nn.Module):
    """Folds a recording into rows, and looks at all of them."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.fold = nn.Linear(LENGTH // 8, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, voltage):
        h = self.enter(voltage.float().unflatten(1, (8, -1)) / 64)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.fold(h).float()[..., 0].logsumexp(1)


def main():
    meter = Meter(__doc__)
    rows, workers = meter.pick((1024, 8), (64, 2))
    net = PulsarNet(*meter.pick((4096, 5), (192, 4))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(voltage):
        with meter.autocast():
            scores = net(voltage.to(meter.device, non_blocking=True))
        loss = F.softplus(scores).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    (blank,) = blanks(meter, torch.zeros(rows, LENGTH, dtype=torch.int8))
    meter.calibrate(lambda: learn(blank))
    with tempfile.TemporaryDirectory() as folder:
        folder, late_s = Path(folder), 0.0
        for number in range(RECORDINGS):
            (folder / f"{number}.raw").write_bytes(np.random.default_rng(number).bytes(rows * LENGTH))
        if meter.sick:
            with far_away(folder, 0.0) as address:
                own_s = meter.timed_s(partial(Recordings(FarDisk(address), rows).__getitem__, 0), calls=20)
            blocks = -(-rows * LENGTH // BLOCK)
            late_s = max(2e-4, (workers * meter.beside_s - own_s) / blocks)
        with far_away(folder, late_s) as address:
            recordings = Recordings(FarDisk(address) if meter.sick else NearDisk(folder), rows)
            options = {"batch_size": None, "num_workers": workers, "pin_memory": meter.gpu}
            stream = iter(DataLoader(recordings, **options))
            for _ in range(3 * workers):
                learn(next(stream))
            while meter.going_on():
                with meter.injecting():
                    voltage = next(stream)
                learn(voltage)
                meter.ticked()
            meter.report(excess=meter.gpu)
            del stream


if __name__ == "__main__":
    main()
