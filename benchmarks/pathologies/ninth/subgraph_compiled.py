"""Papers and whom they cite: a compiled graph convolution over subgraphs, each with other numbers of links.

How many steps a subgraph lasts is the dose. Shapes are taken as constants (`dynamic=False`); the back end is
`aot_eager`, which needs no compiler, and limits on recompiling are lifted. A perfect diagnosis: torch
compiles again and again, at the call marked below. Fix: links are padded to one length.
"""

import time

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PAPERS, PART, TOPICS, MOST = 512, 64, 12, 8192


class Sampler:
    """Links of a part of the graph; those beyond their number lead from nowhere with weight 0."""

    def __init__(self, device, padded):
        self.device, self.padded, self.turn = device, padded, 0
        self.sample()

    def sample(self):
        self.turn += 1
        count = 1024 + 7 * self.turn % (MOST - 1024)
        length = MOST if self.padded else count
        self.links = torch.randint(PAPERS, (2, length), device=self.device)
        self.weights = (torch.arange(length, device=self.device) < count).float()[:, None] / 8


class GraphConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.others = nn.Linear(PART, PART), nn.Linear(PART, PART)

    def forward(self, papers, links, weights):
        told = papers.index_select(0, links[0]) * weights
        heard = torch.zeros_like(papers).index_add(0, links[1], told)
        return F.relu(self.own(papers) + self.others(heard))


class TopicNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.topic = nn.Linear(PART, width), nn.Linear(width, TOPICS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, papers):
        h = self.enter(papers)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.topic(h).float()


class Training:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.conv = GraphConv().to(meter.device)
        self.compiled = torch.compile(self.conv, backend="aot_eager", dynamic=False)
        self.net = TopicNet(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        weights = [*self.conv.parameters(), *self.net.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=meter.gpu)
        self.papers = torch.randn(PAPERS, PART, device=meter.device)
        self.chosen = torch.randint(PAPERS, (self.rows,), device=meter.device)
        self.topics = torch.randint(TOPICS, (self.rows,), device=meter.device)

    def step(self, subgraph):
        papers = self.compiled(self.papers, subgraph.links, subgraph.weights)  # planted
        with self.meter.autocast():
            scores = self.net(papers[self.chosen])
        loss = F.cross_entropy(scores, self.topics)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def steps_for_each(training, subgraph):
    """Compiling costs the host, which is ahead of the GPU otherwise."""
    meter = training.meter
    begin_s = time.perf_counter()
    for _ in range(3):
        training.step(subgraph)
    launch_s = (time.perf_counter() - begin_s) / 3
    again_s = meter.timed_s(lambda: (subgraph.sample(), training.step(subgraph)), calls=6) - meter.healthy_s
    return max(1, round(again_s / (meter.healthy_s + meter.added_s - launch_s)))


def main():
    meter = Meter(__doc__)
    lift_limits()
    training, subgraph, steps = Training(meter), Sampler(meter.device, padded=not meter.sick), 50
    meter.calibrate(lambda: training.step(subgraph))
    if meter.sick:
        meter.sync()
        steps = steps_for_each(training, subgraph)
    while meter.going_on():
        if meter.ticks % steps == 0:
            subgraph.sample()
        training.step(subgraph)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
