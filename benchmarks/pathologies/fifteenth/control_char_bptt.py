"""Healthy control: letters of old sea logs, by a recurrent net that carries its state from step to step.

Tempting: texts are turned to numbers in Python, a line of CSV is written every tenth step, and a text is
made letter by letter every two hundred; all of it is short. A perfect diagnosis: healthy, nothing to
mend. The dose is taken and does nothing; there is no planted line.
"""

import csv
import tempfile

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LETTERS = " abcdefghijklmnopqrstuvwxyz.,"
LOG = "wind from the north west, a heavy sea. we took in sail and held on until the morning. "
BATCH, STEPS, LOG_EVERY, SAMPLE_EVERY, SAMPLED = 16, 24, 10, 200, 20


class LetterNet(nn.Module):
    def __init__(self, size=176):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(len(LETTERS), 48), nn.LSTM(48, size, batch_first=True)
        self.out = nn.Linear(size, len(LETTERS))

    def forward(self, letters, state=None):
        h, state = self.lstm(self.embed(letters), state)
        return self.out(h), state


def encode(text):
    return torch.tensor([LETTERS.index(letter) for letter in text])


@torch.no_grad()
def sample(net, start, device):
    text, letters, state = start, encode(start)[None].to(device), None
    for _ in range(SAMPLED):
        logits, state = net(letters, state)
        letters = torch.multinomial(logits[:, -1].softmax(1), 1)
        text += LETTERS[int(letters)]
    return text


def columns(text, device):
    """Each row of a batch goes on where it ended before."""
    letters = encode(text * 40)
    rows = letters[: len(letters) // BATCH * BATCH].view(BATCH, -1).to(device)
    while True:
        for begin in range(0, rows.shape[1] - STEPS - 1, STEPS):
            yield rows[:, begin : begin + STEPS], rows[:, begin + 1 : begin + STEPS + 1]


def main():
    meter = Meter(__doc__)
    net = LetterNet().to(meter.device)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    stream, state, texts = columns(LOG, meter.device), None, []

    def step():
        nonlocal state
        letters, following = next(stream)
        state = state and tuple(part.detach() for part in state)
        logits, state = net(letters, state)
        loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        return loss

    meter.calibrate(step)
    with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
        table = csv.DictWriter(file, ("step", "loss", "bits"))
        table.writeheader()
        while meter.going_on():
            loss = step()
            meter.ticked()
            if meter.ticks % LOG_EVERY == 0:
                nats = loss.item()
                table.writerow({"step": meter.ticks, "loss": f"{nats:.4f}", "bits": f"{nats / 0.6931:.4f}"})
            if meter.ticks % SAMPLE_EVERY == 0:
                texts.append(sample(net, "the ", meter.device))
        meter.report()


if __name__ == "__main__":
    main()
