"""A decision transformer over trajectories that were recorded long ago, and lie in a store of chunks.

Two workers ask the store for each array of a window on its own, one after another, over a socket. How
late the store answers is the dose. A perfect diagnosis: workers wait for storage, and cores are idle (any
line marked below). Fix: the chunks were fetched once, and lie in files that are mapped.
"""

import multiprocessing
import tempfile
import threading
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

STATE, ACT, CONTEXT, BATCH, WORKERS, EPISODES, LENGTH = 11, 3, 16, 10, 2, 24, 200
WIDTHS = {"states": STATE, "actions": ACT, "returns": 1}


def recorded():
    noise = np.random.default_rng(0)
    return {
        name: noise.normal(size=(EPISODES, LENGTH, width)).astype(np.float32)
        for name, width in WIDTHS.items()
    }


def answer(line, arrays, late_s):
    while True:
        try:
            name, episode, begin = line.recv()
        except EOFError:
            return
        time.sleep(late_s.value)
        line.send_bytes(arrays[name][episode, begin : begin + CONTEXT].tobytes())


def keep_store(ready, arrays, late_s):
    with Listener(("127.0.0.1", 0)) as listener:
        ready.send(listener.address)
        while True:
            threading.Thread(target=answer, args=(listener.accept(), arrays, late_s), daemon=True).start()


class RemoteStore:
    def __init__(self, address):
        self.line = Client(address)

    def chunk(self, name, episode, begin):
        self.line.send((name, episode, begin))
        raw = self.line.recv_bytes()  # planted
        return np.frombuffer(raw, np.float32).reshape(CONTEXT, WIDTHS[name])


class MappedStore:
    def __init__(self, folder, arrays):
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        self.arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}

    def chunk(self, name, episode, begin):
        return np.array(self.arrays[name][episode, begin : begin + CONTEXT])


class Windows(Dataset):
    def __init__(self, connect):
        self.connect, self.store = connect, None

    def __len__(self):
        return 60_000

    def __getitem__(self, index):
        if self.store is None:
            self.store = self.connect()
        place = index % EPISODES, index * 31 % (LENGTH - CONTEXT)
        window = {name: self.store.chunk(name, *place).copy() for name in WIDTHS}  # planted
        window["times"] = np.arange(CONTEXT) + place[1]
        return window


class DecisionTransformer(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.embed = nn.ModuleDict({name: nn.Linear(width, size) for name, width in WIDTHS.items()})
        self.time = nn.Embedding(LENGTH, size)
        layer = nn.TransformerEncoderLayer(size, 4, 4 * size, 0.1, F.gelu, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.act = nn.LayerNorm(size), nn.Linear(size, ACT)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(3 * CONTEXT))

    def forward(self, window):
        time = self.time(window["times"])
        order = ("returns", "states", "actions")
        tokens = torch.stack([self.embed[name](window[name]) + time for name in order], 2).flatten(1, 2)
        h = self.norm(self.blocks(tokens, mask=self.mask, is_causal=True))
        return self.act(h[:, 1::3]).tanh()


def main():
    meter, arrays = Meter(__doc__), recorded()
    net = DecisionTransformer().to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=1e-4)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 1000, 1))

    def train_step(window):
        window = {name: part.to(meter.device) for name, part in window.items()}
        loss = F.mse_loss(net(window), window["actions"].tanh())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        optimizer.step()
        warmup.step()

    blank = {name: torch.rand(BATCH, CONTEXT, width) for name, width in WIDTHS.items()}
    blank["times"] = torch.arange(CONTEXT).repeat(BATCH, 1)
    meter.calibrate(lambda: train_step(blank))
    context = multiprocessing.get_context("fork")
    late_s, (here, there) = context.Value("d", 0.0), context.Pipe()
    server = context.Process(target=keep_store, args=(there, arrays, late_s), daemon=True)
    server.start()
    address = here.recv()
    with tempfile.TemporaryDirectory() as folder:
        if meter.sick:
            probe = Windows(lambda: RemoteStore(address))
            own_s = meter.timed_s(lambda: probe[7], calls=60)
            wanted_s = WORKERS * meter.beside_s / BATCH
            late_s.value = max(1e-4, (wanted_s - own_s) / len(WIDTHS))
            windows = Windows(lambda: RemoteStore(address))
        else:
            mapped = MappedStore(Path(folder), arrays)
            windows = Windows(lambda: mapped)
        batches = iter(DataLoader(windows, BATCH, shuffle=True, num_workers=WORKERS))
        for _ in range(2 * WORKERS):
            train_step(next(batches))
        while meter.going_on():
            with meter.injecting():
                window = next(batches)  # planted
            train_step(window)
            meter.ticked()
        meter.report()
        del batches
    server.terminate()


if __name__ == "__main__":
    main()
