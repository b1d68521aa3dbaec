"""What callers want, told from short utterances; a curriculum notes how hard each utterance was.

It does so utterance by utterance, each time with a question to the GPU; how many are noted in a step is the
dose. A perfect diagnosis: reads from the GPU, one after another, in every step (marked below). Fix: the
notes stay on the GPU and are written all at once.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

VOCABULARY, INTENTS, WORDS, UTTERANCES = 4000, 60, 8, 50_000


class HardnessBook:
    """How large the loss of each utterance was when it was last seen."""

    def __init__(self):
        self.hardness = dict.fromkeys(range(UTTERANCES), 1.0)

    def note(self, utterances, losses):
        for row, utterance in enumerate(utterances):
            self.hardness[utterance] = losses[row].item()  # planted


class HardnessTable:
    """The same as a tensor on the device."""

    def __init__(self, device):
        self.hardness = torch.ones(UTTERANCES, device=device)
        self.rows = torch.arange(UTTERANCES, device=device)

    def note(self, utterances, losses):
        rows = self.rows[utterances.start : utterances.stop]
        self.hardness.index_copy_(0, rows, losses[: len(rows)])


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.heads = max(1, dim // 128)
        self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.wide, self.narrow = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, h):
        q, k, v = self.qkv(self.first(h)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = h + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return h + self.narrow(F.relu(self.wide(self.second(h))))


class IntentNet(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.words, self.enter = nn.Embedding(VOCABULARY, 64), nn.Linear(64, dim)
        self.blocks = nn.Sequential(*(Block(dim) for _ in range(depth)))
        self.intent = nn.Linear(dim, INTENTS)

    def forward(self, words):
        return self.intent(self.blocks(self.enter(self.words(words))).mean(1)).float()


class Training:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(1024, 32)
        self.net = IntentNet(*meter.pick((2048, 2), (32, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.words = torch.randint(VOCABULARY, (self.batch, WORDS), device=meter.device)
        self.intents = torch.randint(INTENTS, (self.batch,), device=meter.device)
        self.at, self.noted = 0, 1

    def step(self, book):
        with self.meter.autocast():
            scores = self.net(self.words)
        losses = F.cross_entropy(scores, self.intents, reduction="none")
        self.optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        self.optimizer.step()
        self.at = (self.at + self.batch) % (UTTERANCES - self.batch)
        book.note(range(self.at, self.at + self.noted), losses.detach())


def main():
    meter = Meter(__doc__)
    training, table, book = Training(meter), HardnessTable(meter.device), HardnessBook()
    meter.calibrate(lambda: training.step(table))
    if meter.dose:
        probe = torch.rand(training.batch, device=meter.device)
        read_s = meter.timed_s(lambda: book.note(range(32), probe), calls=5) / 32
        training.noted = min(training.batch, max(1, round(meter.added_s / read_s)))
    notes = book if meter.sick else table
    while meter.going_on():
        training.step(notes)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
