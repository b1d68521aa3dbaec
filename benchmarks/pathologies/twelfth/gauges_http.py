"""Levels of rivers by a variational autoencoder; shards are fetched from an object store by HTTP.

The store is a server in a process of its own; how late it answers is the dose. A perfect diagnosis: the
workers wait for storage and use no core (either line marked below). Fix: the shards are on the local disk.
"""

import io
import multiprocessing
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

HOURS, GAUGES, SHARDS = 96, 6, 12
OPENER = build_opener(ProxyHandler({}))


class Server(ThreadingHTTPServer):
    request_queue_size = 64


class LateStore(SimpleHTTPRequestHandler):
    late_s = 0.0

    def do_GET(self):
        time.sleep(self.late_s)
        super().do_GET()

    def log_message(self, *_):
        pass


@contextmanager
def store(folder, late_s):
    handler = type("Store", (LateStore,), {"late_s": late_s})
    server = Server(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        process.terminate()
        process.join()
        server.server_close()


def fetched(address, name):
    with OPENER.open(f"{address}/{name}") as answer:  # planted
        return answer.read()  # planted


def from_disk(folder, name):
    return Path(folder, name).read_bytes()


class Shards(IterableDataset):
    """A batch is a shard; each worker has shards of its own."""

    def __init__(self, read):
        self.read = read

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        while True:
            for number in range(first, SHARDS, step):
                with np.load(io.BytesIO(self.read(f"shard-{number}.npz"))) as shard:
                    yield torch.from_numpy(shard["levels"])


class LevelVae(nn.Module):
    def __init__(self, channels, code, depth):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv1d(GAUGES, channels, 4, 2, 1), nn.SiLU(), nn.Conv1d(channels, 2 * channels, 4, 2, 1)
        )
        self.body = nn.ModuleList(nn.Conv1d(2 * channels, 2 * channels, 3, padding=1) for _ in range(depth))
        self.code, self.back = nn.Conv1d(2 * channels, 2 * code, 1), nn.Conv1d(code, 2 * channels, 1)
        self.up = nn.Sequential(
            nn.ConvTranspose1d(2 * channels, channels, 4, 2, 1),
            nn.SiLU(),
            nn.ConvTranspose1d(channels, GAUGES, 4, 2, 1),
        )

    def forward(self, levels):
        h = self.down(levels)
        for conv in self.body:
            h = h + F.silu(conv(h))
        mean, spread = self.code(F.silu(h)).float().chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (spread / 2).exp()
        far = 0.5 * (mean.square() + spread.exp() - 1 - spread).mean()
        return F.mse_loss(self.up(F.silu(self.back(drawn))).float(), levels) + 0.01 * far


def main():
    meter = Meter(__doc__)
    rows, workers = meter.pick((256, 8), (24, 2))
    net = LevelVae(*meter.pick((1024, 32, 6), (96, 16, 0))).to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), 1e-4, fused=meter.gpu)

    def learn(levels):
        levels = levels.to(meter.device, non_blocking=True)
        with meter.autocast():
            loss = net(levels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    (blank,) = blanks(meter, torch.zeros(rows, GAUGES, HOURS))
    meter.calibrate(lambda: learn(blank))
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        for number in range(SHARDS):
            levels = rng.standard_normal((rows, GAUGES, HOURS), dtype=np.float32)
            np.savez(Path(folder, f"shard-{number}.npz"), levels=levels)
        late_s = 0.0
        if meter.sick:
            with store(folder, 0.0) as address:
                own_s = meter.timed_s(lambda: fetched(address, "shard-0.npz"), calls=30)
            late_s = max(5e-4, workers * meter.beside_s - own_s)
        with store(folder, late_s) as address:
            read = partial(fetched, address) if meter.sick else partial(from_disk, folder)
            kind = {"batch_size": None, "num_workers": workers, "pin_memory": meter.gpu}
            stream = iter(DataLoader(Shards(read), **kind))
            for _ in range(3 * workers):
                learn(next(stream))
            while meter.going_on():
                with meter.injecting():
                    levels = next(stream)
                learn(levels)
                meter.ticked()
            meter.report(excess=meter.gpu)
            del stream


if __name__ == "__main__":
    main()
