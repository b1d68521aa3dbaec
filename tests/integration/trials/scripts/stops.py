"""Ticks for a while, with the stub of torch, and then no more, without a word."""

import time

import torch

model, optimizer = torch.nn.Linear(), torch.optim.SGD()
for _ in range(100):
    torch.autograd.backward(model([1]))
    optimizer.step()
    time.sleep(0.01)
print("stops at", time.time(), flush=True)
time.sleep(3600)
