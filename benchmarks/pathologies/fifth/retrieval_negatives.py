"""Dense retrieval: the collate function looks among the passages of a batch for hard negatives, by words.

How many candidates are scored is the dose. A perfect diagnosis: the workers spend their time in the collate
function (the overlap marked below), and the training waits for them. Fix: negatives that were found before
the training, once for each question.
"""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = 4000


class Questions(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return 400_000

    def __getitem__(self, number):
        rng = np.random.default_rng(number)
        passage = rng.zipf(1.3, self.length) % WORDS
        return {"question": passage[: self.length // 4], "passage": passage, "number": number}


def overlap(question, passage):
    common = question & passage
    return sum(1.0 / (1 + word % 97) for word in common) / (1 + len(passage))  # planted


def hardest(question, number, pool, candidates):
    best, best_score = 0, -1.0
    for n in range(candidates):
        other = (number + 1 + n) % len(pool)
        score = overlap(question, pool[other])
        if score > best_score:
            best, best_score = other, score
    return best


def collate(items, candidates, mined):
    passages = np.stack([item["passage"] for item in items])
    questions = np.stack([item["question"] for item in items])
    if mined:
        chosen = [(n * 31 + 7) % len(items) for n in range(len(items))]
    else:
        pool = [set(row.tolist()) for row in passages]
        asked = [set(row.tolist()) for row in questions]
        shares = np.diff(np.linspace(0, candidates, len(items) + 1).astype(int))
        chosen = [hardest(words, n, pool, int(shares[n])) for n, words in enumerate(asked)]
    return torch.from_numpy(questions), torch.from_numpy(passages), torch.from_numpy(passages[chosen])


class Encoder(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.word = nn.Embedding(WORDS, dim)
        layer = nn.TransformerEncoderLayer(
            dim, max(2, dim // 64), 4 * dim, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, words):
        return F.normalize(self.layers(self.word(words)).mean(1), dim=-1)


def costs(meter, length, batch):
    """A batch without any overlap, and one overlap more."""
    questions, probe = Questions(length), 40 * batch

    def made(candidates):
        return collate([questions[n] for n in range(batch)], candidates, mined=False)

    bare_s = meter.timed_s(lambda: made(0), calls=10)
    return bare_s, (meter.timed_s(lambda: made(probe), calls=10) - bare_s) / probe


def main():
    meter = Meter(__doc__)
    batch, length = meter.pick((64, 128), (8, 16))
    encoder = Encoder(*meter.pick((1024, 3), (96, 2))).to(meter.device)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=2e-5, fused=meter.gpu)
    same = torch.arange(batch, device=meter.device)

    def contrast(*words):
        questions, passages, negatives = (t.to(meter.device, non_blocking=True) for t in words)
        with meter.autocast():
            asked, answers = encoder(questions), encoder(torch.cat([passages, negatives]))
            loss = F.cross_entropy(20 * asked @ answers.T, same)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    long = torch.zeros(batch, length, dtype=torch.long)
    blank = blanks(meter, long[:, : length // 4].contiguous(), long, long)
    meter.calibrate(lambda: contrast(*blank))
    workers = meter.pick(4, 1)
    bare_s, one_s = costs(meter, length, batch)
    candidates = max(0, round((workers * meter.beside_s - bare_s) / one_s))
    loader = DataLoader(
        Questions(length),
        batch_size=batch,
        collate_fn=partial(collate, candidates=candidates, mined=not meter.sick),
        num_workers=workers,
        pin_memory=meter.gpu,
        drop_last=True,
    )
    batches = iter(loader)
    contrast(*next(batches))
    while meter.going_on():
        contrast(*next(batches))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
