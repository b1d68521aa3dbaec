"""Reads that wait and copies to the device, each on a line of its own. STEPS."""

import sys

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-4)
host = torch.randn(4096, 2048)
total = 0.0
for _ in range(int(sys.argv[1])):
    rows = host.to("cuda")  # the copy
    loss = model(rows).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()  # the wait
    if (loss > 1e9).any():  # the hidden wait
        break
print(total.hex())
