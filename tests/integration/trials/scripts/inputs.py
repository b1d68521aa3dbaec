"""Opens its data for writing and only reads it, writes an input of its own again, and takes weights and the
number of a step, not the state of its optimizer, from an earlier run."""

import os

import torch

with open("data/tokens.bin", "r+b") as stream:
    assert stream.read() == b"1234", "its data"
vocabulary = torch.load("vocab.pt")
torch.save([*vocabulary, "new"], "vocab.pt")
model, start = torch.nn.Linear(4, 1), 0
if os.path.exists("weights.pt"):
    state = torch.load("weights.pt")
    model.load_state_dict(state["model"])
    start = state["step"]
print("first step", start, flush=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    model(torch.ones(8, 4)).square().mean().backward()
    optimizer.step()
print("done", flush=True)
