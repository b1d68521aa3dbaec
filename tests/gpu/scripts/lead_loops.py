"""Loops that never wait for the GPU, and tell torch so: function, graph, streams."""

import sys
import time

import torch
from turn import take_turn

take_turn()
kind, seconds = sys.argv[1], float(sys.argv[2])
device = torch.device("cuda")


def slow_function():
    time.sleep(0.100)


width, depth, batch = (4096, 4, 4096) if kind == "function" else (1024, 4, 1024)  # others share the card
model = torch.nn.Sequential(
    *[layer for _ in range(depth) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
inputs = torch.randn(batch, width, device=device)
other = torch.cuda.Stream() if kind == "streams" else None


def update():
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


graph = None
if kind == "graph":
    static = torch.randn(512, 512, device=device)
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        for _ in range(3):
            static @ static
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = static
        for _ in range(40):
            result = torch.tanh(result @ static)

torch.cuda.synchronize()
torch.cuda.set_sync_debug_mode("error")  # whoever waits for the GPU from here on fails
end, ticks = time.perf_counter() + seconds, 0
while time.perf_counter() < end:
    if kind == "function":
        slow_function()
    if graph is not None:
        graph.replay()
    if other is not None:
        with torch.cuda.stream(other):
            inputs @ inputs.T
    loss = update()
    ticks += 1
torch.cuda.set_sync_debug_mode("default")
print("ticks", ticks, "loss", loss.item())
