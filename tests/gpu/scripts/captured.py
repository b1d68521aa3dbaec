"""A training step captured in a CUDA graph and replayed. STEPS."""

import sys

import torch

torch.manual_seed(0)
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.Adam(model.parameters(), 1e-3, capturable=True)
rows = torch.randn(128, 256, device="cuda")


def step() -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss = model(rows).square().mean()
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = step()
for _ in range(int(sys.argv[1])):
    graph.replay()
print(captured.item().hex())
