"""DataLoader workers forked after CUDA is in use, anew in each epoch, in a loop that never waits for the GPU:
Stoker records events there. And children made with os.fork, one of which ends as any Python does. STEPS."""

import os
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
inputs = torch.randn(64, 1024, device="cuda")
data = TensorDataset(torch.linspace(-1, 1, 16 * int(sys.argv[1])))
for _ in range(6):
    for (numbers,) in DataLoader(data, batch_size=16, num_workers=2):
        loss = model(inputs * float(numbers.sum())).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.005)
ended = []
for way in (os._exit, sys.exit):
    child = os.fork()
    if child == 0:
        way(0 if torch.ones(2).sum().item() == 2 else 1)
    ended.append(os.waitpid(child, 0)[1])
print(loss.item().hex(), ended)
