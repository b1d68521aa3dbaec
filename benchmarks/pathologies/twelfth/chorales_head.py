"""Chorales as tokens, of which there are very many; a transformer, and a head that is kept in full precision.

Somebody feared for the softmax and put the whole head outside autocast, its product included. At how many
places the next token is guessed is the dose. A perfect diagnosis: a large matrix product in fp32, without
tensor cores (either of the lines marked below). Fix: the product in bfloat16, and `float()` after it.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn


class Voice(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.first, self.second = max(1, size // 64), nn.LayerNorm(size), nn.LayerNorm(size)
        self.q, self.kv, self.join = nn.Linear(size, size), nn.Linear(size, 2 * size), nn.Linear(size, size)
        self.net = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, h):
        calm = self.first(h)
        q = self.q(calm).unflatten(2, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(calm).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heard = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.join(heard.transpose(1, 2).flatten(2))
        return h + self.net(self.second(h))


class Choir(nn.Module):
    def __init__(self, tokens, size, depth):
        super().__init__()
        self.token, self.voices = (
            nn.Embedding(tokens, size),
            nn.Sequential(*(Voice(size) for _ in range(depth))),
        )

    def forward(self, chorales):
        return self.voices(self.token(chorales)).flatten(0, 1)


class CarefulHead(nn.Linear):
    def forward(self, h):
        with torch.autocast(h.device.type, enabled=False):  # planted
            return F.linear(h.float(), self.weight, self.bias)  # planted


class QuickHead(nn.Linear):
    def forward(self, h):
        return super().forward(h).float()


class Training:
    def __init__(self, meter, careful):
        self.meter, (batch, length) = meter, meter.pick((16, 512), (4, 24))
        self.tokens, size, depth = meter.pick((32_768, 1024, 6), (256, 32, 2))
        self.choir = Choir(self.tokens, size, depth).to(meter.device)
        self.heads = [kind(size, self.tokens).to(meter.device) for kind in (QuickHead, CarefulHead)]
        self.head, self.guessed = self.heads[careful], meter.pick(256, 8)
        self.chorales = torch.randint(self.tokens, (batch, length), device=meter.device)
        self.places = torch.randperm(batch * length, device=meter.device)
        weights = [*self.choir.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=meter.gpu)

    def step(self):
        places = self.places[: self.guessed]
        with self.meter.autocast():
            h = self.choir(self.chorales)
            scores = self.head(h[places])
        loss = F.cross_entropy(scores, self.chorales.roll(-1, 1).flatten()[places])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def guess_s(self, head):
        """One place more."""
        few, many = self.meter.pick((256, 1280), (8, 40))
        h = torch.randn(many, head.in_features, device=self.meter.device, requires_grad=True)

        def guess(count):
            with self.meter.autocast():
                scores = head(h[:count])
            scores.logsumexp(1).sum().backward()

        few_s, many_s = (self.meter.timed_s(lambda n=count: guess(n), calls=6) for count in (few, many))
        return max(1e-8, (many_s - few_s) / (many - few))


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("highest")
    healthy = Training(meter, careful=False)
    meter.calibrate(healthy.step)
    guessed, most = healthy.guessed, len(healthy.places)
    if meter.dose:
        quick_s, careful_s = (healthy.guess_s(head) for head in healthy.heads)
        gain_s = max(1e-8, careful_s - quick_s) if meter.gpu else meter.healthy_s
        guessed = min(most, max(guessed, round(meter.added_s / gain_s / 128) * 128))
    del healthy
    training = Training(meter, careful=meter.sick)
    training.guessed = guessed
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
