"""Two faults: utterances are put into words by a regular expression in every step, and garbage is collected.

Each takes three quarters of a dose. A perfect diagnosis names both: the words on the training thread (first
marked line), and the collector, called by hand with many speakers alive (second). Fix: words are looked up
once, and nobody collects.
"""

import gc
import random
import re

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, WORDS, LENGTH, ACTS = 0.75, 1000, 16, 12
TOKEN = re.compile(r"[a-z]+|\d+|[?!.]")


class Speaker:
    def __init__(self, number, others):
        self.number, self.said, self.knows = number, [f"turn {number}"], others[-3:]
        self.notes = {"mood": [number % 5], "turns": {}}


class Dialogues:
    def __init__(self, count=3000):
        rng = random.Random(4)
        vocabulary = [f"{rng.choice('bdfgklmnprst')}{rng.choice('aeiou')}{n}" for n in range(WORDS)]
        self.utterances = [" ".join(rng.choices(vocabulary, k=LENGTH)) + "?" for _ in range(count)]
        self.known = {}

    def words(self, text):
        return [hash(token) % WORDS for token in TOKEN.findall(text.lower())][:LENGTH]  # planted

    def kept_words(self, text):
        if text not in self.known:
            self.known[text] = self.words(text)
        return self.known[text]

    def batch(self, first, count, words):
        texts = (self.utterances[(first + n) % len(self.utterances)] for n in range(count))
        return torch.tensor([words(text) for text in texts])


class ActNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.act = nn.Linear(width, ACTS)

    def forward(self, words):
        h = self.words(words)
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.act(h).float()


class Understanding:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 128)
        self.net = ActNet(*meter.pick((4096, 5), (320, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.seen = torch.randint(WORDS, (rows, LENGTH), device=meter.device)
        self.acts = torch.randint(ACTS, (rows,), device=meter.device)

    def learn(self, words):
        words = words[: len(self.seen)]
        words = words.pin_memory() if self.meter.gpu else words
        self.seen[: len(words)].copy_(words, non_blocking=True)
        with self.meter.autocast():
            scores = self.net(self.seen)
        loss = F.cross_entropy(scores, self.acts)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def speakers_alive(count):
    speakers = []
    for n in range(count):
        speakers.append(Speaker(n, speakers))
    return speakers


def forget(speakers, keep=20_000):
    """After a while the oldest go."""
    del speakers[keep:]
    gc.collect()  # planted


def main():
    meter = Meter(__doc__)
    understanding, dialogues = Understanding(meter), Dialogues()
    few = dialogues.batch(0, 16, dialogues.kept_words)
    healthy_s = meter.calibrate(lambda: understanding.learn(few))
    part_s, count, every, first = PART * meter.added_s, 16, 0, 0
    if meter.dose:
        one_s = meter.timed_s(lambda: dialogues.batch(0, 1000, dialogues.words)) / 1000
        count = max(16, round((part_s + (healthy_s if meter.gpu else 0.0)) / one_s))
    speakers = speakers_alive(20_000)
    if meter.sick:
        every = max(1, round(meter.timed_s(lambda: forget(speakers)) / part_s))
    words = dialogues.words if meter.sick else dialogues.kept_words
    while meter.going_on():
        with meter.injecting():
            batch = dialogues.batch(first, count, words)
        understanding.learn(batch)
        first += count
        meter.ticked()
        if every and meter.ticks % every == 0:
            with meter.injecting():
                forget(speakers)
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
