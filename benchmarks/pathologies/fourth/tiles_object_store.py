"""Segmentation of map tiles that the workers fetch one by one from an object store, which answers late.

The store is a small server on this machine; how late it answers is the dose. A perfect diagnosis: the
training waits for the loader, and its workers wait for the tiles without using a core (the read marked
below). Fix: a local copy of the archive.
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

WORKERS, TILES, CLASSES = 4, 64, 5


def answer(connection, archive, tile_bytes, late_s):
    while request := connection.recv(4):
        start = struct.unpack("<I", request)[0] * tile_bytes
        time.sleep(late_s)
        connection.sendall(archive[start : start + tile_bytes])


def serve(listener, archive, tile_bytes, late_s):
    while True:
        connection, _ = listener.accept()
        args = (connection, archive, tile_bytes, late_s)
        threading.Thread(target=answer, args=args, daemon=True).start()


class ObjectStore:
    def __init__(self, address, tile_bytes):
        self.address, self.tile_bytes, self.connection = address, tile_bytes, None

    def get(self, number):
        if self.connection is None:
            self.connection = socket.create_connection(self.address)
            self.body = self.connection.makefile("rb")
        self.connection.sendall(struct.pack("<I", number))
        return self.body.read(self.tile_bytes)  # planted


class LocalArchive:
    def __init__(self, path, tile_bytes):
        self.path, self.tile_bytes = path, tile_bytes

    def get(self, number):
        with self.path.open("rb") as file:
            file.seek(number * self.tile_bytes)
            return file.read(self.tile_bytes)


class MapTiles(Dataset):
    def __init__(self, store, side):
        self.store, self.side = store, side

    def __len__(self):
        return 200_000

    def __getitem__(self, index):
        tile = np.frombuffer(self.store.get(index % TILES), np.uint8).reshape(4, self.side, self.side)
        return torch.from_numpy(tile[:3].copy()), torch.from_numpy(tile[3] % CLASSES).long()


class Dilated(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=2 ** (i % 4), dilation=2 ** (i % 4)) for i in range(depth)
        )
        self.leave = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        x = self.enter(x)
        for conv in self.body:
            x = x + F.relu(conv(x))
        return self.leave(x)


def start_store(archive, tile_bytes, late_s):
    """The listener is bound here, so that nobody calls before it is there."""
    listener = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    args = (listener, archive, tile_bytes, late_s)
    store = context.Process(target=serve, args=args, daemon=True)
    store.start()
    return store, listener.getsockname()


def main():
    meter = Meter(__doc__)
    side, batch = meter.pick((128, 16), (32, 4))
    net = Dilated(*meter.pick((96, 10), (24, 6))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, fused=meter.gpu)

    def learn(tiles, truth):
        tiles = tiles.to(meter.device, non_blocking=True).float() / 255
        truth = truth.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = F.cross_entropy(net(tiles.contiguous(memory_format=torch.channels_last)), truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    empty = torch.zeros(batch, 3, side, side, dtype=torch.uint8)
    blank = blanks(meter, empty, torch.zeros(batch, side, side, dtype=torch.long))
    meter.calibrate(lambda: learn(*blank))
    tile_bytes = 4 * side * side
    archive = np.random.default_rng(0).integers(0, 255, TILES * tile_bytes, np.uint8).tobytes()
    with tempfile.TemporaryDirectory() as folder:
        path, server = Path(folder, "tiles.bin"), None
        path.write_bytes(archive)
        store = LocalArchive(path, tile_bytes)
        if meter.sick:
            server, address = start_store(archive, tile_bytes, WORKERS * meter.beside_s / batch)
            store = ObjectStore(address, tile_bytes)
        loader = DataLoader(MapTiles(store, side), batch, num_workers=WORKERS, pin_memory=meter.gpu)
        batches = iter(loader)
        for _ in range(WORKERS):
            learn(*next(batches))
        while meter.going_on():
            learn(*next(batches))
            meter.ticked()
        meter.report(excess=True)
        del batches
        if server:
            server.terminate()


if __name__ == "__main__":
    main()
