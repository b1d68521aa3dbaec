"""Federated averaging of phones that learn from touches; an optimizer counts what sending would cost.

An optimizer of the project's own rounds each update to levels, and counts bits of run lengths, value by
value. How many values of a parameter it counts is the dose. A perfect diagnosis: hot lines of Python on
the training thread (any line marked below). Fix: NumPy counts them.
"""

import copy

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

TOUCHES, SEEN, GESTURES, BATCH, PHONES, ROUND = 20, 10, 12, 48, 4, 25


def level(value, unit):
    return max(-8, min(8, round(value / unit)))  # planted


def levels(values, unit):
    return [level(value, unit) for value in values]


def runs(numbers):
    length, before = 0, None
    for number in numbers:
        if number == before:  # planted
            length += 1
        else:
            if length:
                yield before, length
            before, length = number, 1
    yield before, length


def gamma_bits(number):
    return 2 * number.bit_length() - 1


def run_bits(values, unit):
    return sum(5 + gamma_bits(length) for _, length in runs(levels(values, unit)))  # planted


class ByValues:
    def __call__(self, update):
        return run_bits(update.tolist(), 0.05)


class ByArrays:
    def __call__(self, update):
        rounded = np.clip(np.rint(update.cpu().numpy() / 0.05), -8, 8)
        edges = np.flatnonzero(np.diff(rounded, prepend=99, append=99))
        lengths = np.diff(edges)
        return int(5 * len(lengths) + (2 * np.floor(np.log2(lengths)) + 1).sum())


class MeteredSGD(torch.optim.Optimizer):
    """Momentum, and a count of bits for each parameter."""

    def __init__(self, params, lr=0.02, momentum=0.9, counted=0, bits_of=None, spent=None):
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.counted, self.bits_of, self.spent, self.bits = counted, bits_of, spent, 0

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state["speed"] = torch.zeros_like(param)
                speed = state["speed"].mul_(group["momentum"]).add_(param.grad)
                param.add_(speed, alpha=-group["lr"])
                self.count(speed)

    def count(self, speed):
        if self.bits_of:
            with self.spent():
                part = speed.flatten()[: self.counted]
                self.bits += self.bits_of(part)  # planted


class GestureNet(nn.Module):
    def __init__(self, size=160):
        super().__init__()
        self.lstm = nn.LSTM(SEEN, size, batch_first=True)
        self.out = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, GESTURES))

    def forward(self, touches):
        return self.out(self.lstm(touches)[0][:, -1])


class Phone:
    def __init__(self, net, device, seed, **counting):
        torch.manual_seed(seed)
        self.net = copy.deepcopy(net)
        self.touches = torch.randn(10, BATCH, TOUCHES, SEEN, device=device)
        self.gestures = torch.randint(GESTURES, (10, BATCH), device=device)
        self.optimizer, self.number = MeteredSGD(self.net.parameters(), **counting), 0

    def learn(self):
        self.number += 1
        loss = F.cross_entropy(self.net(self.touches[self.number % 10]), self.gestures[self.number % 10])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


@torch.no_grad()
def average(phones):
    for params in zip(*(phone.net.parameters() for phone in phones), strict=True):
        mean = torch.stack(params).mean(0)
        for param in params:
            param.copy_(mean)


def federation(phones):
    """Who learns next, round by round."""
    while True:
        for phone in phones:
            for _ in range(ROUND):
                yield phone
        average(phones)


def main():
    meter = Meter(__doc__)
    net = GestureNet().to(meter.device)
    arrays = {"bits_of": ByArrays(), "spent": meter.injecting}
    alone = Phone(net, meter.device, 0, counted=200, **arrays)
    meter.calibrate(alone.learn)
    counted = 200
    if meter.dose:
        updates = [torch.randn(param.numel()) * 0.01 for param in net.parameters()]
        counting = lambda count: lambda: [ByValues()(update[:count]) for update in updates]  # noqa: E731
        counted = amount_taking(meter, counting, 600, 2600, meter.added_s)
    if meter.sick:
        arrays["bits_of"] = ByValues()
    phones = [Phone(net, meter.device, seed, counted=counted, **arrays) for seed in range(PHONES)]
    meter.injected_s = 0.0
    for phone in federation(phones):
        if not meter.going_on():
            break
        phone.learn()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
