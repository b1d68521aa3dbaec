"""Names found in text: a wide encoder, and a linear-chain CRF that adds up all paths word by word.

How long a sentence is is the dose. A perfect diagnosis: launch-bound, as each word of the recursion marked
below is a few tiny kernels, forward and backward, and the GPU waits for the next one. Fix: neighbouring
words are joined in pairs, then pairs of pairs, in a few calls.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

TAGS, FEATURES = 9, 96


class LinearChain(nn.Module):
    """Scores are (sentences, words, tags)."""

    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(0.1 * torch.randn(TAGS, TAGS))

    def word_by_word(self, scores):
        """The logarithm of the sum over all paths."""
        alpha = scores[:, 0]
        for word in range(1, scores.shape[1]):
            paths = alpha[:, :, None] + self.moves + scores[:, word, None]
            alpha = torch.logsumexp(paths, 1)  # planted
        return torch.logsumexp(alpha, 1)

    def in_pairs(self, scores):
        steps = self.moves + scores[:, 1:, None]
        while steps.shape[1] > 1:
            rest = steps[:, steps.shape[1] // 2 * 2 :]
            left, right = steps[:, 0 : steps.shape[1] - 1 : 2], steps[:, 1::2]
            joined = torch.logsumexp(left[..., :, :, None] + right[..., None, :, :], 3)
            steps = torch.cat([joined, rest], 1)
        return torch.logsumexp(scores[:, 0, :, None] + steps[:, 0], (1, 2))

    def of_path(self, scores, tags):
        own = scores.gather(2, tags[..., None])[..., 0].sum(1)
        return own + self.moves[tags[:, :-1], tags[:, 1:]].sum(1)


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.tag = nn.Linear(FEATURES, width), nn.Linear(width, TAGS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, words):
        h = self.enter(words)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.tag(h).float()


class Tagger:
    def __init__(self, meter):
        self.meter, self.rows, self.sentences = meter, meter.pick(8192, 128), 4
        self.encoder = Encoder(*meter.pick((4096, 5), (192, 4))).to(meter.device)
        self.chain = LinearChain().to(meter.device)
        weights = [*self.encoder.parameters(), *self.chain.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=meter.gpu)
        self.words = torch.randn(self.rows, FEATURES, device=meter.device)
        self.write(8)

    def write(self, length):
        """All sentences of a batch have so many words."""
        self.length = min(length, self.rows // self.sentences)
        self.tags = torch.randint(TAGS, (self.sentences, self.length), device=self.meter.device)

    def step(self, all_paths):
        with self.meter.autocast():
            scores = self.encoder(self.words)
        chained = scores[: self.sentences * self.length].view(self.sentences, self.length, TAGS)
        loss = (all_paths(chained) - self.chain.of_path(chained, self.tags)).mean() / self.length
        loss = loss + 0.01 * scores.square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def host_s_of_a_word(tagger):
    scores = torch.randn(tagger.sentences, 40, TAGS, device=tagger.meter.device, requires_grad=True)
    return tagger.meter.timed_s(lambda: tagger.chain.word_by_word(scores).sum().backward(), calls=6) / 40


def main():
    meter = Meter(__doc__)
    tagger = Tagger(meter)
    chain = tagger.chain
    meter.calibrate(lambda: tagger.step(chain.in_pairs))
    if meter.dose:
        tagger.write(max(8, round(meter.host_s / host_s_of_a_word(tagger))))
    all_paths = chain.word_by_word if meter.sick else chain.in_pairs
    while meter.going_on():
        tagger.step(all_paths)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
