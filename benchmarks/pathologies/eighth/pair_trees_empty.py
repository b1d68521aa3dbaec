"""Two faults: sentences as trees, put together node by node, and a guard that empties the allocator's cache.

Each takes three quarters of a dose. A perfect diagnosis names both: hundreds of tiny kernels (first marked
line), and an allocator that gives memory back to ask for it again (second). Fix: all nodes of a level at
once, and nothing is emptied. Needs a GPU.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, LEAVES, SIZE, MOODS = 0.75, 8, 16, 5


class Compose(nn.Module):
    """Two children become a parent."""

    def __init__(self):
        super().__init__()
        self.gate, self.both = nn.Linear(2 * SIZE, SIZE), nn.Linear(2 * SIZE, SIZE)

    def forward(self, left, right):
        pair = torch.cat([left, right], -1)
        return torch.sigmoid(self.gate(pair)) * torch.tanh(self.both(pair))

    def node_by_node(self, sentences):
        roots = []
        for sentence in sentences.unbind(0):
            nodes = list(sentence.unbind(0))
            while len(nodes) > 1:
                nodes = [self(nodes[n], nodes[n + 1]) for n in range(0, len(nodes), 2)]  # planted
            roots.append(nodes[0])
        return torch.stack(roots)

    def level_by_level(self, sentences):
        nodes = sentences
        while nodes.shape[1] > 1:
            nodes = self(nodes[:, 0::2], nodes[:, 1::2])
        return nodes[:, 0]


class MemoryGuard:
    """Tidies up before memory runs out, it hopes."""

    def __init__(self, every=0):
        self.every, self.steps = every, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.steps += 1
        if self.every and self.steps % self.every == 0:
            torch.cuda.empty_cache()  # planted


class Reader(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.mood = nn.Linear(SIZE, width), nn.Linear(width, MOODS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, roots):
        h = self.enter(roots)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.mood(h).float()


class Treebank:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.compose = Compose().to(meter.device)
        self.reader = Reader(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        weights = [*self.compose.parameters(), *self.reader.parameters()]
        self.optimizer = torch.optim.Adam(weights, 1e-5, fused=meter.gpu)
        self.moods = torch.randint(MOODS, (self.rows,), device=meter.device)
        self.read(2)

    def read(self, sentences):
        self.sentences = torch.randn(sentences, LEAVES, SIZE, device=self.meter.device)

    def step(self, put_together, guard):
        with guard:
            roots = put_together(self.sentences)
            roots = roots.repeat(-(-self.rows // len(roots)), 1)[: self.rows]
            with self.meter.autocast():
                scores = self.reader(roots)
            loss = F.cross_entropy(scores, self.moods)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            del roots, scores, loss


def sentence_s(bank):
    bank.read(12)
    alone = bank.compose.node_by_node
    return bank.meter.timed_s(lambda: alone(bank.sentences).sum().backward(), calls=5) / 12


def main():
    meter = Meter(__doc__)
    bank, guard = Treebank(meter), MemoryGuard()
    compose = bank.compose
    healthy_s = meter.calibrate(lambda: bank.step(compose.level_by_level, guard))
    part_s = PART * meter.added_s
    if meter.sick and meter.gpu:
        eager = MemoryGuard(every=1)
        fresh_s = meter.timed_s(lambda: bank.step(compose.level_by_level, eager), calls=6) - healthy_s
        guard.every = max(1, round(fresh_s / part_s))
    if meter.dose:
        wanted_s = part_s + meter.pick(healthy_s, 0.0)
        bank.read(max(2, round(wanted_s / sentence_s(bank))))
    put_together = compose.node_by_node if meter.sick else compose.level_by_level
    while meter.going_on():
        bank.step(put_together, guard)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
