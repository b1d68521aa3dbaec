"""Facts between things in a graph: a relational convolution that goes from relation to relation.

Each relation is a few small products of its own, there and back; how many relations there are is the dose. A
perfect diagnosis: launch-bound, hundreds of kernels too small to keep the GPU busy (marked below). Fix: all
relations in one batched product.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

THINGS, PART = 96, 64


class RelationalConv(nn.Module):
    """Messages along each kind of relation, each with weights of its own; dense, as the graph is small."""

    def __init__(self, device, batched=False):
        super().__init__()
        self.device, self.batched = device, batched
        self.with_relations(2)

    def with_relations(self, count):
        weights = 0.05 * torch.randn(count, PART, PART, device=self.device)
        self.weights = nn.Parameter(weights)
        self.links = (torch.rand(count, THINGS, THINGS, device=self.device) < 0.1).float()
        self.degrees = self.links.sum(2, keepdim=True).clamp(min=1)

    def one_by_one(self, things):
        out = torch.zeros_like(things)
        for links, degree, weight in zip(self.links, self.degrees, self.weights, strict=True):
            out = out + links @ (things @ weight) / degree  # planted
        return out

    def all_at_once(self, things):
        return (self.links / self.degrees @ (things @ self.weights)).sum(0)

    def forward(self, things):
        return (self.all_at_once if self.batched else self.one_by_one)(things)


class Scorer(nn.Module):
    """How likely is a fact? Reads two things and what is known of them."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.likely = nn.Linear(2 * PART, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, pairs):
        h = self.enter(pairs)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.likely(h).float()[:, 0]


class Completion:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.things = torch.randn(THINGS, PART, device=meter.device)
        self.conv = RelationalConv(meter.device, batched=True)
        self.scorer = Scorer(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.facts = torch.randint(THINGS, (2, rows), device=meter.device)
        self.known = torch.rand(rows, device=meter.device).round()
        self.optimizer = torch.optim.AdamW(self.scorer.parameters(), 1e-5, fused=meter.gpu)
        self.of_relations = torch.optim.SGD([self.conv.weights], 1e-4)

    def with_relations(self, count):
        self.conv.with_relations(count)
        self.of_relations = torch.optim.SGD([self.conv.weights], 1e-4)

    def step(self):
        things = torch.tanh(self.conv(self.things))
        pairs = torch.cat([things[self.facts[0]], things[self.facts[1]]], 1)
        with self.meter.autocast():
            score = self.scorer(pairs)
        loss = F.binary_cross_entropy_with_logits(score, self.known)
        self.optimizer.zero_grad(set_to_none=True)
        self.of_relations.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.of_relations.step()


def relations_that_cost(meter, completion):
    """How many make a step take as long as wanted, when they are gone through one by one."""
    wanted_s, count = (1 + meter.share) * meter.healthy_s, 8
    completion.conv.batched = False
    while count < 2000:
        completion.with_relations(count)
        if meter.timed_s(completion.step, calls=4) >= 0.97 * wanted_s:
            return
        count = round(1.15 * count) + 1


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = True
    completion = Completion(meter)
    meter.calibrate(completion.step)
    if meter.dose:
        relations_that_cost(meter, completion)
    completion.conv.batched = not meter.sick
    while meter.going_on():
        completion.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
