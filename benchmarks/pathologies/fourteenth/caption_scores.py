"""Captions of pictures, written by a small recurrent decoder; after a step, some are written down and scored.

Words are joined, tidied by regular expressions, compared with the true captions and appended to a log as
JSON. How many are scored is the dose. A perfect diagnosis: hot lines of Python on the training thread
(any line marked below). Fix: this happens every five hundred steps.
"""

import io
import json
import re
from collections import Counter
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

LENGTH, FEATURES, BATCH = 16, 128, 20
SYLLABLES = (
    "ba",
    "Ri",
    "to",
    "lun",
    "ge",
    "'s",
    "ick",
    "o",
    "-",
    "mar",
    "ven",
    "##ing",
    "Ta",
    ",",
    "po",
    "x",
)
WORDS = [one + other for one in SYLLABLES for other in SYLLABLES]


def tidy(text):
    text = re.sub(r"##(\w+)", r"\1", text.lower())
    text = re.sub(r"\s*([,.'-])\s*", r"\1 ", text)
    return re.sub(r"[^a-z ]+|\s{2,}", " ", text).strip()  # planted


def f1_score(said, meant):
    said, meant = Counter(said.split()), Counter(meant.split())
    common = sum((said & meant).values())
    return 2 * common / max(1, said.total() + meant.total())


class SampleLog:
    def __init__(self, count):
        self.count, self.file, self.mean = count, io.StringIO(), 0.0

    def write(self, step, said, meant):
        entries = []
        for number in range(self.count):
            row = number % len(said)
            texts = [tidy(" ".join(WORDS[word] for word in words[row])) for words in (said, meant)]  # planted
            entries.append({"step": step, "said": texts[0], "meant": texts[1], "f1": f1_score(*texts)})
        self.file.seek(0)
        self.file.write("\n".join(json.dumps(entry, sort_keys=True) for entry in entries))
        self.mean = sum(entry["f1"] for entry in entries) / max(1, len(entries))


class Captioner(nn.Module):
    def __init__(self, size=256):
        super().__init__()
        self.picture, self.word = nn.Linear(FEATURES, size), nn.Embedding(len(WORDS), size)
        self.lstm, self.say = nn.LSTM(size, size, batch_first=True), nn.Linear(size, len(WORDS))

    def forward(self, features, caption):
        start = self.picture(features)[None].tanh()
        states, _ = self.lstm(self.word(caption), (start, torch.zeros_like(start)))
        return self.say(states)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for param in group["params"]:
                mean = self.state[param].setdefault("mean", torch.zeros_like(param))
                param.add_(torch.lerp(mean, param.grad, 0.1).sign_(), alpha=-group["lr"])
                mean.lerp_(param.grad, 0.01)


def run(meter, model, optimizer, log, every):
    features = torch.randn(BATCH, FEATURES, device=meter.device)
    captions = torch.randint(len(WORDS), (BATCH, LENGTH), device=meter.device)
    step = 0
    while True:
        scores = model(features, captions.roll(step, 0))
        loss = F.cross_entropy(scores.flatten(0, 1), captions.roll(-1, 1).flatten(), label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        with meter.injecting() if meter.ticks else nullcontext():
            if every and step % every == 0:
                said = scores.detach().argmax(2).tolist()
                log.write(step, said, captions.tolist())  # planted
        yield loss


def main():
    meter = Meter(__doc__)
    model = Captioner().to(meter.device)
    optimizer = Lion(model.parameters(), lr=1e-4)
    healthy = run(meter, model, optimizer, None, 0)
    meter.calibrate(lambda: next(healthy))
    count = 2
    if meter.dose:
        captions = torch.randint(len(WORDS), (BATCH, LENGTH)).tolist()
        scoring = lambda count: lambda: SampleLog(count).write(0, captions, captions)  # noqa: E731
        count = amount_taking(meter, scoring, 2, 52, meter.added_s)
    for _ in run(meter, model, optimizer, SampleLog(count), 1 if meter.sick else 500):
        meter.ticked()
        if not meter.going_on():
            break
    meter.report()


if __name__ == "__main__":
    main()
