"""A small diffusion model of tiles of terrain, with averaged weights; tiles come from a server by HTTP.

Two workers ask for one tile after another, as a bucket would be asked. How late the server answers is the
dose. A perfect diagnosis: workers wait for storage, and cores are idle (either line marked below). Fix:
the tiles were fetched once, and lie in a folder.
"""

import http.client
import http.server
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, BANDS, TILES, BATCH, WORKERS, LEVELS = 24, 2, 48, 6, 2, 200


def serve(ready, tiles, late_s):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            body = tiles[int(self.path.rsplit("/", 1)[1]) % TILES].tobytes()
            time.sleep(late_s.value)
            self.send_response_only(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.send(server.server_port)
    server.serve_forever()


class Bucket:
    def __init__(self, port):
        self.line = http.client.HTTPConnection("127.0.0.1", port)

    def get(self, number):
        self.line.request("GET", f"/terrain/{number}")
        return self.line.getresponse().read()  # planted


class Folder:
    def __init__(self, root, tiles):
        self.root = root
        for number, tile in enumerate(tiles):
            (root / f"{number}.f32").write_bytes(tile.tobytes())

    def get(self, number):
        return (self.root / f"{number % TILES}.f32").read_bytes()


class Terrain(Dataset):
    """Connects on first use, so that every worker has a line of its own."""

    def __init__(self, open_source):
        self.open_source, self.source = open_source, None

    def __len__(self):
        return 80_000

    def __getitem__(self, index):
        if self.source is None:
            self.source = self.open_source()
        raw = self.source.get(index)  # planted
        return torch.frombuffer(bytearray(raw), dtype=torch.float32).view(BANDS, SIDE, SIDE)


class Denoiser(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.level = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.enter, self.leave = nn.Conv2d(BANDS, width, 3, 1, 1), nn.Conv2d(width, BANDS, 3, 1, 1)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(4))
        self.register_buffer("rates", torch.logspace(0, -3, 8))

    def forward(self, noisy, level):
        angle = level[:, None] * self.rates
        level = self.level(torch.cat([angle.sin(), angle.cos()], 1))[:, :, None, None]
        h = self.enter(noisy)
        for block in self.blocks:
            h = h + F.silu(block(h + level))
        return self.leave(h)


class Ema:
    def __init__(self, net, decay=0.995):
        self.decay, self.shadow = decay, [param.detach().clone() for param in net.parameters()]

    @torch.no_grad()
    def update(self, net):
        torch._foreach_lerp_(self.shadow, list(net.parameters()), 1 - self.decay)


def make_step(net, ema, device):
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-4)
    signal = torch.cumprod(1 - torch.linspace(1e-4, 0.02, LEVELS, device=device), 0)

    def step(clean):
        clean = clean.to(device)
        level = torch.randint(LEVELS, (len(clean),), device=device)
        kept, noise = signal[level][:, None, None, None], torch.randn_like(clean)
        noisy = kept.sqrt() * clean + (1 - kept).sqrt() * noise
        loss = F.mse_loss(net(noisy, level.float()), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(net)

    return step


def main():
    meter = Meter(__doc__)
    net = Denoiser().to(meter.device)
    step = make_step(net, Ema(net), meter.device)
    meter.calibrate(lambda: step(torch.rand(BATCH, BANDS, SIDE, SIDE)))
    tiles = np.random.default_rng(0).random((TILES, BANDS, SIDE, SIDE), dtype=np.float32)
    context = multiprocessing.get_context("fork")
    late_s, (here, there) = context.Value("d", 0.0), context.Pipe()
    server = context.Process(target=serve, args=(there, tiles, late_s), daemon=True)
    server.start()
    port = here.recv()
    with tempfile.TemporaryDirectory() as folder:
        if meter.sick:
            terrain = Terrain(lambda: Bucket(port))
            own_s = meter.timed_s(lambda: terrain[5], calls=60)
            late_s.value = max(1e-4, WORKERS * meter.beside_s / BATCH - own_s)
            terrain = Terrain(lambda: Bucket(port))
        else:
            cached = Folder(Path(folder), tiles)
            terrain = Terrain(lambda: cached)
        batches = iter(DataLoader(terrain, BATCH, shuffle=True, num_workers=WORKERS))
        for _ in range(2 * WORKERS):
            step(next(batches))
        while meter.going_on():
            with meter.injecting():
                clean = next(batches)
            step(clean)
            meter.ticked()
        meter.report()
        del batches
    server.terminate()


if __name__ == "__main__":
    main()
