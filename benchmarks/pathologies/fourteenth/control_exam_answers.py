"""Healthy control: answers in exams, marked by a small transformer; it is tested every two hundred steps.

Tempting: an evaluation in the loop, again and again; but it is short. A perfect diagnosis: healthy,
nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

from dataclasses import dataclass, field

import torch
from stopwatch import Meter
from torch import nn

VOCABULARY, LENGTH, MARKS, BATCH, TEST_EVERY, TESTED = 2000, 20, 6, 24, 200, 3


class Marker(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, size)
        self.places = nn.Parameter(torch.randn(LENGTH, size) * 0.02)
        layer = nn.TransformerEncoderLayer(size, 4, 3 * size, 0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.mark = nn.Linear(size, MARKS - 1)

    def forward(self, answers):
        return self.mark(self.encoder(self.words(answers) + self.places).mean(1))


def ordinal_loss(logits, marks):
    """A threshold for each mark."""
    reached = (marks[:, None] > torch.arange(MARKS - 1, device=marks.device)).float()
    return nn.functional.binary_cross_entropy_with_logits(logits, reached)


@dataclass
class State:
    step: int = 0
    best: float = 9.9
    history: list = field(default_factory=list)


class Marking:
    def __init__(self, device):
        self.model, self.device, self.state = Marker().to(device), device, State()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4)
        self.answers = torch.randint(VOCABULARY, (40, BATCH, LENGTH), device=device)
        self.marks = torch.randint(MARKS, (40, BATCH), device=device)

    def train_step(self):
        number = self.state.step % (40 - TESTED)
        self.model.train()
        loss = ordinal_loss(self.model(self.answers[number]), self.marks[number])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.state.step += 1
        if self.state.step % TEST_EVERY == 0:
            self.evaluate()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        missed = []
        for answers, marks in zip(self.answers[-TESTED:], self.marks[-TESTED:], strict=True):
            guess = (self.model(answers) > 0).sum(1)
            missed.append((guess - marks).abs().float().mean())
        mean = torch.stack(missed).mean().item()
        self.state.history.append(mean)
        self.state.best = min(self.state.best, mean)


def main():
    meter = Meter(__doc__)
    marking = Marking(meter.device)
    meter.calibrate(marking.train_step)
    while meter.going_on():
        marking.train_step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
