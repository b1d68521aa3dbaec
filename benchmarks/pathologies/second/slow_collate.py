"""A small language model: the batches are put together token by token in Python, in `collate_fn`.

A perfect diagnosis: the training waits for batches; the workers' time goes into the collate function
`pad_and_count`, not into reading samples. Fix: the same padding and counts with NumPy.
"""

import numpy as np
import torch
from meter import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY, WORKERS = 1024, 4


class Sentences(Dataset):
    def __init__(self, longest):
        rng = np.random.default_rng(0)
        lengths = rng.integers(longest // 2, longest + 1, 2048)
        self.rows = [rng.integers(1, VOCABULARY, length) for length in lengths]

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.rows[index % len(self.rows)]


class PadInPython:
    """Pads, and counts how often each token follows itself, `passes` times for as many windows."""

    def __init__(self, longest, passes):
        self.longest, self.passes = longest, passes

    def pad_and_count(self, rows):
        padded, counts = [], []
        for row in rows:
            for window in range(1, self.passes + 1):
                count = 0
                for here, there in zip(row.tolist(), row[window:].tolist(), strict=False):  # planted
                    count += here == there
            counts.append(count)
            padded.append(row.tolist() + [0] * (self.longest - len(row)))
        return torch.tensor(padded), torch.tensor(counts, dtype=torch.float32)

    __call__ = pad_and_count


class PadInNumpy:
    def __init__(self, longest):
        self.longest = longest

    def __call__(self, rows):
        padded = np.zeros((len(rows), self.longest), dtype=np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        counts = (padded[:, 1:] == padded[:, :-1]).sum(1)
        return torch.from_numpy(padded), torch.from_numpy(counts).float()


class LanguageModel(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.word, self.count = nn.Linear(width, VOCABULARY), nn.Linear(width, 1)

    def forward(self, tokens):
        hidden = self.layers(self.embed(tokens))
        return self.word(hidden), self.count(hidden.mean(1)).squeeze(1)


def main():
    meter = Meter(__doc__)
    longest, batch = meter.pick((256, 96), (32, 8))
    model = LanguageModel(*meter.pick((1024, 6), (64, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=meter.gpu)

    def step(tokens, counts):
        tokens, counts = (one.to(meter.device, non_blocking=True) for one in (tokens, counts))
        with meter.autocast():
            words, guess = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(words.flatten(0, 1), tokens[:, 1:].flatten())
            loss = loss + (guess - counts).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    data = Sentences(longest)
    rows = [data[index] for index in range(batch)]
    meter.calibrate(lambda: step(*PadInNumpy(longest)(rows)))
    one_pass_s = meter.timed_s(lambda: PadInPython(longest, 1)(rows))
    passes = max(1, round(WORKERS * meter.beside_s / one_pass_s))
    collate = PadInPython(longest, passes) if meter.sick else PadInNumpy(longest)
    loader = DataLoader(data, batch, num_workers=WORKERS, collate_fn=collate, pin_memory=meter.gpu)
    batches = iter(loader)
    next(batches)
    while meter.going_on():
        step(*next(batches))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
