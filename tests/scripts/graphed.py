"""The whole step in a CUDA graph, replayed; beside it a graph without a step in it, and one that is dropped.

Tick: a replay of the step. Iteration: one tick.
"""

import gc
import weakref

import torch
from played_graph import captured
from tiny_job import Losses, arguments, report
from torch import nn


def main() -> None:
    args = arguments(__doc__, steps=300)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(64, 16)
    targets = inputs.sum(dim=1, keepdim=True)
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = Losses(args.losses)

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()

    def play() -> None:
        with torch.no_grad():
            errors = inputs @ model.weight.T + model.bias - targets
            model.weight -= 0.02 * (errors * inputs).mean(0)
            model.bias -= 0.02 * errors.mean()
            losses.add(errors.square().mean().item())

    for _ in range(3):
        step()
    acting = captured(lambda: model(inputs), lambda: None)
    learning = captured(step, play)
    dropped = weakref.ref(captured(step, play))
    gc.collect()
    assert dropped() is None
    replay = learning.replay
    del learning
    for _ in range(args.steps):
        acting.replay()
        replay()
    report(ticks=args.steps)


if __name__ == "__main__":
    main()
