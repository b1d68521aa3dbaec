"""Thirty-two small critics, one after another in a Python loop: each product is far too small for the GPU.

The batch is chosen so that all critics in one batched product would take 75, 50 and 33 % of the loop's time
at dose 1 to 3. A perfect diagnosis: launch-bound; the kernels come from the loop marked below. Fix: one
batched product for each layer.
"""

from functools import partial

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

OBSERVATION = 32


class Critics(nn.Module):
    def __init__(self, members, width):
        super().__init__()
        sizes = [(OBSERVATION, width), (width, width), (width, width), (width, 1)]
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(members, *s) / s[0] ** 0.5) for s in sizes)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(members, 1, s[1])) for s in sizes)

    def one_by_one(self, x):
        layers = list(zip(*(w.unbind() for w in (*self.weights, *self.biases)), strict=True))
        values = []
        for member in layers:
            h = x
            for w, b in zip(member[:4], member[4:], strict=True):
                h = F.elu(torch.addmm(b, h, w))  # planted
            values.append(h)
        return torch.stack(values)

    def batched(self, x):
        h = x.expand(len(self.weights[0]), -1, -1)
        for w, b in zip(self.weights, self.biases, strict=True):
            h = F.elu(torch.baddbmm(b, h, w))
        return h


def train_step(critics, optimizer, values_of, x):
    target = x.sum(1, keepdim=True)
    loss = (values_of(x) - target).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def batch_taking(meter, wanted_s, step):
    """The first size at which the batched critics take that long."""
    batch = 64
    while batch < 2**18 and meter.timed_s(partial(step, batch), calls=2) < wanted_s:
        batch = batch * 5 // 4
    return batch


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("high")
    critics = Critics(*meter.pick((32, 256), (8, 16))).to(meter.device)
    optimizer = torch.optim.Adam(critics.parameters(), lr=1e-4, fused=meter.gpu)

    def step_with(values_of, batch):
        rows = torch.randn(batch, OBSERVATION, device=meter.device)
        train_step(critics, optimizer, values_of, rows)

    loop_s = meter.timed_s(lambda: step_with(critics.one_by_one, 64), calls=8)
    wanted_s = loop_s / (1 + meter.share)
    batch = batch_taking(meter, wanted_s, lambda size: step_with(critics.batched, size))
    meter.calibrate(lambda: step_with(critics.batched, batch))
    values_of = critics.one_by_one if meter.sick else critics.batched
    while meter.going_on():
        step_with(values_of, batch)
        meter.ticked(samples=batch)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
