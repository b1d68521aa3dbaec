"""Papers and what they cite: a graph net trained by a generator of events; its reader ranks links very often.

How often is the dose. A perfect diagnosis: evaluation takes too large a part of the time (the call marked
below). Fix: a ranking every two thousand steps.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WORDS, SUBJECTS = 64, 12


class Citations(NamedTuple):
    words: torch.Tensor
    cites: torch.Tensor
    subjects: torch.Tensor

    @classmethod
    def made_up(cls, papers, cited, device):
        cites = torch.randint(papers, (papers, cited), device=device)
        words = torch.rand(papers, WORDS, device=device)
        return cls(words, cites, torch.randint(SUBJECTS, (papers,), device=device))


class Conv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.own, self.cited = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h, cites):
        return h + F.relu(self.own(h) + self.cited(h[cites].mean(1)))


class GraphNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(WORDS, width)
        self.convs = nn.ModuleList(Conv(width) for _ in range(depth))
        self.drop, self.subject = nn.Dropout(0.2), nn.Linear(width, SUBJECTS)

    def embed(self, graph):
        h = self.enter(graph.words)
        for conv in self.convs:
            h = conv(self.drop(h), graph.cites)
        return h

    def forward(self, graph):
        return self.subject(self.embed(graph)).float()


@torch.inference_mode()
def link_ranking(meter, net, graphs):
    """Among all papers, how far up are those that a paper really cites?"""
    net.eval()
    ranks = []
    with meter.autocast():
        for graph in graphs:
            h = F.normalize(net.embed(graph), dim=1)
            for rows, cites in zip(h.split(256), graph.cites.split(256), strict=True):
                near = rows @ h.T
                own = near.gather(1, cites).mean(1, keepdim=True)
                ranks.append((near > own).sum(1))
    net.train()
    return torch.cat(ranks).float().add(1).reciprocal().mean().item()


def events(meter, net, optimizer, graph, rank_every):
    """Trains; says what happened."""
    while meter.going_on():
        with meter.autocast():
            scores = net(graph)
        loss = F.cross_entropy(scores, graph.subjects)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.ticked()
        yield "step", meter.ticks
        if meter.ticks % rank_every == 0:
            yield "time to rank", meter.ticks


def main():
    meter = Meter(__doc__)
    graph, *held_out = (Citations.made_up(meter.pick(8192, 256), 4, meter.device) for _ in range(9))
    net = GraphNet(*meter.pick((3072, 4), (128, 3))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def warm():
        with meter.autocast():
            loss = F.cross_entropy(net(graph), graph.subjects)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    meter.calibrate(warm)
    every = 2000
    if meter.sick:
        every = max(1, round(meter.timed_s(lambda: link_ranking(meter, net, held_out)) / meter.added_s))
    best = 0.0
    for kind, _ in events(meter, net, optimizer, graph, every):
        if kind == "time to rank":
            with meter.injecting():
                best = max(best, link_ranking(meter, net, held_out))  # planted
    meter.report(excess=meter.gpu)


if __name__ == "__main__":
    main()
