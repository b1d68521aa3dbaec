"""DataLoader workers forked after CUDA is in use, and a child made with os.fork. STEPS."""

import os
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = torch.nn.Linear(32, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
data = TensorDataset(torch.randn(16 * int(sys.argv[1]), 32))
for (rows,) in DataLoader(data, batch_size=16, num_workers=2):
    loss = model(rows.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
child = os.fork()
if child == 0:
    os._exit(0 if torch.ones(2).sum().item() == 2 else 1)
print(loss.item().hex(), os.waitpid(child, 0)[1])
