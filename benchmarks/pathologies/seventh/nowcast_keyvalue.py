"""Rain in the next hour, from radar sweeps that workers ask a key-value store for.

How late the store answers is the dose. A perfect diagnosis: the workers wait for storage (marked below), and
the training for them. Fix: the sweeps are on a local disk.
"""

import multiprocessing
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SWEEPS = 24


def exactly(sock, size):
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))  # planted
        if not part:
            raise ConnectionError("the store has gone")
        parts += part
    return bytes(parts)


def answer(sock, values, late_s):
    try:
        while True:
            (key,) = struct.unpack("!I", exactly(sock, 4))
            time.sleep(late_s)
            sock.sendall(struct.pack("!I", len(values[key])) + values[key])
    except OSError:
        sock.close()


def serve(listening, values, late_s):
    while True:
        sock, _ = listening.accept()
        threading.Thread(target=answer, args=(sock, values, late_s), daemon=True).start()


class KeyValue:
    """A connection for each process that asks."""

    def __init__(self, address):
        self.address, self.sock = address, None

    def get(self, key):
        if self.sock is None:
            self.sock = socket.create_connection(self.address)
        self.sock.sendall(struct.pack("!I", key))
        (size,) = struct.unpack("!I", exactly(self.sock, 4))
        return exactly(self.sock, size)


class Folder:
    def __init__(self, folder, values):
        self.folder = folder
        for key, value in enumerate(values):
            (folder / f"{key}.sweep").write_bytes(value)

    def get(self, key):
        return (self.folder / f"{key}.sweep").read_bytes()


class Nowcasts(Dataset):
    """What the radar saw, and what it saw next."""

    def __init__(self, store, side):
        self.store, self.side = store, side

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        sweep = np.frombuffer(self.store.get(index % SWEEPS), np.float16)
        seen, coming = torch.from_numpy(sweep.astype(np.float32)).view(2, 1, self.side, self.side)
        return seen, coming


class RainNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.down, self.up = nn.Conv2d(1, width, 4, stride=4), nn.ConvTranspose2d(width, 1, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))

    def forward(self, seen):
        h = self.down(seen)
        for conv in self.body:
            h = h + F.gelu(conv(h))
        return self.up(h).float()


def main():
    meter = Meter(__doc__)
    batch, side = meter.pick((64, 128), (4, 64))
    net = RainNet(*meter.pick((384, 8), (64, 10))).to(meter.device)
    optimizer = torch.optim.RAdam(net.parameters(), 1e-5)

    def foresee(seen, coming):
        seen, coming = (t.to(meter.device, non_blocking=True) for t in (seen, coming))
        with meter.autocast():
            guess = net(seen)
        loss = F.huber_loss(guess, coming)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, *torch.rand(2, batch, 1, side, side))
    meter.calibrate(lambda: foresee(*blank))
    workers, service = meter.pick(8, 2), None
    rng = np.random.default_rng(0)
    values = [rng.random((2, side, side), np.float32).astype(np.float16).tobytes() for _ in range(SWEEPS)]
    with tempfile.TemporaryDirectory() as folder:
        if meter.sick:
            listening = socket.create_server(("127.0.0.1", 0))
            late_s = max(1e-4, workers * meter.beside_s / batch - 0.0003)
            context = multiprocessing.get_context("fork")
            service = context.Process(target=serve, args=(listening, values, late_s), daemon=True)
            service.start()
            store = KeyValue(listening.getsockname())
        else:
            store = Folder(Path(folder), values)
        loader = DataLoader(Nowcasts(store, side), batch, num_workers=workers, pin_memory=meter.gpu)
        sweeps = iter(loader)
        for _ in range(workers):
            foresee(*next(sweeps))
        while meter.going_on():
            with meter.injecting():
                sweep = next(sweeps)
            foresee(*sweep)
            meter.ticked()
        meter.report(excess=meter.gpu)
        del sweeps
        if service:
            service.terminate()


if __name__ == "__main__":
    main()
