"""A decoder-only transformer that writes a full checkpoint every few steps.

A perfect diagnosis: the training stands still while it writes checkpoints, at the line marked below; too
often for what one costs. Fix: a hundred times less often.
"""

import tempfile
from pathlib import Path

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        seen = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, words, width, depth):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*[Block(width, width // 64) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


class Trainer:
    def __init__(self, meter, folder):
        self.meter, self.file = meter, Path(folder, "latest.pt")
        self.words = meter.pick(2048, 256)
        self.model = Decoder(self.words, *meter.pick((768, 2), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=meter.gpu)

    def train_step(self):
        batch, length = self.meter.pick((64, 1024), (4, 32))
        tokens = torch.randint(self.words, (batch, length + 1), device=self.meter.device)
        with self.meter.autocast():
            logits = self.model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def save(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state, self.file)  # planted

    def fit(self, save_every):
        while self.meter.going_on():
            loss = self.train_step()
            self.meter.ticked()
            if self.meter.ticks % save_every == 0:
                print(f"step {self.meter.ticks}  loss {loss.item():.3f}  saving", flush=True)
                with self.meter.injecting():
                    self.save()


def main():
    meter = Meter(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(meter, folder)
        healthy_s = meter.calibrate(trainer.train_step)
        save_s = meter.timed_s(trainer.save, calls=2)
        often = max(1, round(save_s / (meter.share * healthy_s))) if meter.dose else 1_000_000
        trainer.fit(often if meter.sick else 100 * often)
    meter.report()


if __name__ == "__main__":
    main()
