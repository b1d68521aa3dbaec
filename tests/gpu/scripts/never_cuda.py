"""Trains on the CPU of a machine that has a GPU; says whether CUDA was started. STEPS."""

import sys

import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
print(torch.cuda.is_initialized())
