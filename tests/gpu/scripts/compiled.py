"""torch.compile(fullgraph=True) on CUDA: a training whose compiled parts move tensors. MODE STEPS."""

import sys

import torch

mode, steps = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()


@torch.compile(fullgraph=True, mode=mode)
def forward(rows: torch.Tensor) -> torch.Tensor:
    return model(rows.to(torch.float32)).to("cuda").sum()


optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for _ in range(steps):
    loss = forward(torch.randn(32, 64, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item().hex())
