"""A training with the stub torch that ticks until a file appears, a deadline at most:

    python ticking.py PROGRESS_FILE STOP_FILE

PROGRESS_FILE holds the number of ticks made so far.
"""

import os
import sys
import time

import torch

DEADLINE_S = 120


def train(progress, stop):
    model, optimizer = torch.nn.Linear(), torch.optim.SGD()
    descriptor = os.open(progress, os.O_CREAT | os.O_WRONLY)
    began, ticks = time.monotonic(), 0
    while not os.path.exists(stop) and time.monotonic() - began < DEADLINE_S:
        torch.autograd.backward(model([1]))
        optimizer.step()
        ticks += 1
        os.pwrite(descriptor, b"%12d" % ticks, 0)
        time.sleep(0.003)


if __name__ == "__main__":
    train(*sys.argv[1:])
