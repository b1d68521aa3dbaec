"""Two faults: words are labelled by a chain of tags, summed up word by word, and evaluated very often.

Each takes three quarters of a dose. A perfect diagnosis names both: launch-bound, by a loop of small kernels
(first marked line), and evaluations much too often (second). Fix: the sum by halves, and an evaluation every
two thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, LETTERS, TAGS, SENTENCES, RARELY = 0.75, 64, 8, 8, 2000


def sum_by_words(steps):
    """Log of the sum over all paths; `steps`: word, sentence, tag before, tag."""
    reached = steps[0, :, 0]
    for step in steps[1:]:
        reached = torch.logsumexp(reached[:, :, None] + step, 1)  # planted
    return reached.logsumexp(1)


def sum_by_halves(steps):
    while len(steps) > 1:
        even = len(steps) // 2 * 2
        left, right, rest = steps[0:even:2], steps[1:even:2], steps[even:]
        steps = torch.cat([(left[..., None] + right[:, :, None]).logsumexp(3), rest])
    return steps[0, :, 0].logsumexp(1)


class Tagger(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.tag = nn.Linear(LETTERS, width), nn.Linear(width, TAGS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.follow = nn.Parameter(torch.zeros(TAGS, TAGS))

    def forward(self, words):
        h = self.enter(words)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.tag(h).float()


class Training:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 256)
        self.net = Tagger(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.words = torch.rand(self.rows, LETTERS, device=meter.device)
        self.tags = torch.randint(TAGS, (self.rows,), device=meter.device)
        self.length, self.blocks = 4, 8

    def step(self, path_sum):
        with self.meter.autocast():
            score = self.net(self.words)
        chained = score[: self.length * SENTENCES].unflatten(0, (self.length, SENTENCES))
        paths = path_sum(chained[:, :, None] + self.net.follow)
        loss = F.cross_entropy(score, self.tags) + 0.01 * paths.mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        right = torch.zeros((), device=self.meter.device)
        for _ in range(self.blocks):
            with self.meter.autocast():
                guess = self.net(self.words).argmax(1)  # planted
            right += (guess == self.tags).float().mean()
        self.net.train()
        return right.item() / self.blocks


def lengthen(training, part_s):
    """Sentences become longer until a step that goes word by word takes as much longer as wanted."""
    meter = training.meter
    while 2 * training.length * SENTENCES < training.rows:
        if meter.timed_s(lambda: training.step(sum_by_words), calls=4) >= meter.healthy_s + part_s:
            return
        training.length = round(1.2 * training.length) + 1


def main():
    meter = Meter(__doc__)
    training, every = Training(meter), RARELY
    meter.calibrate(lambda: training.step(sum_by_halves))
    part_s = PART * meter.added_s
    if meter.dose:
        lengthen(training, part_s)
    if meter.sick:
        every = max(1, round(meter.timed_s(training.evaluate) / part_s))
    path_sum = sum_by_words if meter.sick else sum_by_halves
    while meter.going_on():
        training.step(path_sum)
        meter.ticked()
        if meter.ticks % every == 0:
            training.evaluate()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
