"""Calls of whales, which the loader's workers fetch over HTTP as ranges of one long recording.

The service is a process of this script; how late it answers is the dose. A perfect diagnosis: the workers
wait for storage and use no core (the request marked below). Fix: the recording on the local disk.
"""

import http.client
import multiprocessing
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPECIES = 6


class Archive(BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", 65_536, True
    recording, late_s = b"", 0.0

    def do_GET(self):
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        part = self.recording[first : last + 1]
        time.sleep(self.late_s)
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_):
        pass


def serve(recording, late_s, told):
    Archive.recording, Archive.late_s = recording, late_s
    server = ThreadingHTTPServer(("127.0.0.1", 0), Archive)
    server.daemon_threads = True
    told.send(server.server_port)
    server.serve_forever()


class Remote:
    def __init__(self, port):
        self.port, self.connection = port, None

    def __call__(self, first, last):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.connection.request("GET", "/hydrophone.f32", headers={"Range": f"bytes={first}-{last}"})
        return self.connection.getresponse().read()  # planted


class Local:
    def __init__(self, path):
        self.path = path

    def __call__(self, first, last):
        with self.path.open("rb") as recording:
            recording.seek(first)
            return recording.read(last + 1 - first)


class Calls(Dataset):
    def __init__(self, fetch, samples, calls):
        self.fetch, self.samples, self.calls = fetch, samples, calls

    def __len__(self):
        return 300_000

    def __getitem__(self, index):
        size = 4 * self.samples
        first = index % self.calls * size
        wave = np.frombuffer(self.fetch(first, first + size - 1), np.float32)
        return torch.from_numpy(wave / (np.abs(wave).max() + 1e-3)), index % SPECIES


class Listener(nn.Module):
    def __init__(self, window, width, depth):
        super().__init__()
        self.window = window
        self.enter = nn.Linear(window, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.species = nn.Linear(width, SPECIES)

    def forward(self, waves):
        h = self.enter(waves.unflatten(1, (-1, self.window)))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.species(h.amax(1))


def main():
    meter = Meter(__doc__)
    batch, samples, window = meter.pick((16, 65_536, 128), (4, 2048, 64))
    net = Listener(window, *meter.pick((4096, 5), (512, 8))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def hear(waves, species):
        waves, species = (t.to(meter.device, non_blocking=True) for t in (waves, species))
        with meter.autocast():
            loss = F.cross_entropy(net(waves).float(), species)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    blank = blanks(meter, torch.zeros(batch, samples), torch.zeros(batch, dtype=torch.long))
    meter.calibrate(lambda: hear(*blank))
    workers, service = meter.pick(8, 2), None
    recording = np.random.default_rng(0).standard_normal((32, samples), dtype=np.float32).tobytes()
    with tempfile.TemporaryDirectory() as folder:
        fetch = Local(Path(folder, "hydrophone.f32"))
        fetch.path.write_bytes(recording)
        if meter.sick:
            here, there = multiprocessing.Pipe()
            late_s = max(1e-4, workers * meter.beside_s / batch - 0.0008)
            args = (recording, late_s, there)
            service = multiprocessing.get_context("fork").Process(target=serve, args=args, daemon=True)
            service.start()
            fetch = Remote(here.recv())
        calls = DataLoader(Calls(fetch, samples, 32), batch, num_workers=workers, pin_memory=meter.gpu)
        stream = iter(calls)
        for _ in range(workers):
            hear(*next(stream))
        while meter.going_on():
            with meter.injecting():
                heard = next(stream)
            hear(*heard)
            meter.ticked()
        meter.report(excess=meter.gpu)
        del stream
        if service:
            service.terminate()


if __name__ == "__main__":
    main()
