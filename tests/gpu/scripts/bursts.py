"""Training for SECONDS: a few milliseconds of GPU work, then the host sleeps. Optional second argument: the
devices to make visible, set by the script itself before torch is imported."""

import os
import sys
import time

if len(sys.argv) > 2:
    os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[2]

import torch
from turn import take_turn

take_turn()
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-4)
rows = torch.randn(512, 4096, device="cuda")
end = time.monotonic() + float(sys.argv[1])
steps = 0
while time.monotonic() < end:
    for _ in range(2):
        loss = model(rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    loss.item()
    time.sleep(0.03)
    steps += 1
print(steps)
