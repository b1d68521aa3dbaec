"""What has changed between two satellite pictures; a batch is a nest of dicts, and a helper moves it.

How many tiles a batch has is the dose: the net learns from some of them. A perfect diagnosis: large blocking
copies from pageable memory (marked below). Fix: pinned tiles, copied ahead on another stream.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BANDS, SIDE = 10, 64


def tree_map(change, tree):
    """The batch with each of its tensors changed."""
    if isinstance(tree, dict):
        return {key: tree_map(change, branch) for key, branch in tree.items()}
    return change(tree)


def to_device(tree, device):
    return tree_map(lambda leaf: leaf.to(device), tree)  # planted


class Revisits:
    """Pairs of passes over the same ground, and a map of what is new."""

    def __init__(self, tiles):
        self.batches = [
            {
                "passes": {
                    "before": torch.full((tiles, BANDS, SIDE, SIDE), 0.1 * n),
                    "after": torch.full((tiles, BANDS, SIDE, SIDE), 0.1 + 0.1 * n),
                },
                "changed": torch.full((tiles, SIDE // 4, SIDE // 4), float(n)),
            }
            for n in range(2)
        ]
        self.turn = 0

    def pinned(self):
        self.batches = [tree_map(torch.Tensor.pin_memory, batch) for batch in self.batches]
        return self

    def next(self):
        self.turn += 1
        return self.batches[self.turn % 2]


class Moved:
    def __init__(self, revisits, device):
        self.revisits, self.device = revisits, device

    def next(self):
        return to_device(self.revisits.next(), self.device)


class MovedAhead(Moved):
    def __init__(self, revisits, device):
        super().__init__(revisits.pinned(), device)
        self.side = torch.cuda.Stream()
        self._send()

    def _send(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.coming = tree_map(self._sent, self.revisits.next())

    def _sent(self, leaf):
        return leaf.to(self.device, non_blocking=True)

    def next(self):
        here = torch.cuda.current_stream()
        here.wait_stream(self.side)
        batch = self.coming
        tree_map(lambda leaf: leaf.record_stream(here), batch)
        self._send()
        return batch


class Siamese(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(BANDS, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.changed = nn.Conv2d(width, 1, 1)

    def encode(self, tiles):
        h = self.stem(tiles)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return h

    def forward(self, before, after):
        before, after = self.encode(torch.cat([before, after])).chunk(2)
        return self.changed((before - after).abs())[:, 0].float()


def main():
    meter = Meter(__doc__)
    learned = meter.pick(64, 2)
    net = Siamese(*meter.pick((512, 6), (16, 2))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def step(batch):
        chosen = torch.randint(len(batch["changed"]), (learned,), device=meter.device)
        before, after = (
            batch["passes"][name][chosen].contiguous(memory_format=torch.channels_last)
            for name in ("before", "after")
        )
        with meter.autocast():
            score = net(before, after)
        loss = F.binary_cross_entropy_with_logits(score, batch["changed"][chosen].clamp(0, 1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    here = tree_map(lambda leaf: leaf.to(meter.device), Revisits(learned).next())
    meter.calibrate(lambda: step(here))
    tiles = learned
    if meter.dose:
        probe = Revisits(4 * learned).next()
        once_s = meter.timed_s(lambda: tree_map(lambda x: x.to(meter.device, copy=True), probe), calls=5)
        tiles = max(learned, round(4 * learned * meter.added_s / once_s))
    ahead = meter.gpu and not meter.sick
    source = (MovedAhead if ahead else Moved)(Revisits(tiles), meter.device)
    while meter.going_on():
        step(source.next())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
