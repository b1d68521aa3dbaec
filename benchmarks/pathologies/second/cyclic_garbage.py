"""A value net trained beside a search tree of Python objects that point to each other.

Parents know their children and children their parent, so only the garbage collector can free them, and it
walks the whole tree each time. A perfect diagnosis: pauses of the garbage collector (they fall into the
growing of the tree, at the line marked below). Fix: children do not hold their parent, and the collector is
off.
"""

import gc
import time
from collections import deque

import torch
from meter import Meter
from torch import nn

CHILDREN = 60


class Node:
    def __init__(self, parent, value):
        self.parent, self.value, self.children = parent, value, []


def subtree(cyclic):
    root = Node(None, 0.0)
    for number in range(CHILDREN):
        root.children.append(Node(root if cyclic else None, float(number)))  # planted
    return root


class Pauses:
    """What the collector itself took."""

    def __init__(self):
        self.total_s, self.begin_s = 0.0, 0.0
        gc.callbacks.append(self)

    def __call__(self, phase, info):
        if phase == "start":
            self.begin_s = time.perf_counter()
        else:
            self.total_s += time.perf_counter() - self.begin_s


class Search:
    def __init__(self, kept, cyclic):
        self.cyclic, self.trees = cyclic, deque(maxlen=kept)
        self.grow(kept)

    def grow(self, count):
        for _ in range(count):
            self.trees.append(subtree(self.cyclic))


def value_net(width, depth, device):
    layers = [nn.Linear(256, width)]
    for _ in range(depth):
        layers += [nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(width, 1)).to(device)


def main():
    meter, pauses = Meter(__doc__), Pauses()
    net = value_net(*meter.pick((4096, 6), (128, 2)), meter.device)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-4)
    boards = torch.randn(meter.pick(16384, 256), 256, device=meter.device)

    def update():
        with meter.autocast():
            loss = (net(boards) - boards.mean(1, keepdim=True)).square().mean()
        sgd.zero_grad(set_to_none=True)
        loss.backward()
        sgd.step()

    meter.calibrate(update)
    if not meter.sick:
        gc.disable()
    kept = meter.pick(3000, 500)
    search = Search(kept, cyclic=meter.sick)
    before_s = pauses.total_s
    search.grow(2 * kept)
    tree_s = max((pauses.total_s - before_s) / (2 * kept), 15e-6)
    # Growing costs a part of what collecting does, on the same thread: the dose leaves room for it.
    subtrees = max(1, round(0.8 * meter.host_s / tree_s)) if meter.dose else 1
    before_s = pauses.total_s
    while meter.going_on():
        update()
        search.grow(subtrees)
        meter.ticked()
    meter.injected_s = pauses.total_s - before_s
    meter.report()


if __name__ == "__main__":
    main()
