"""Ticks for ever; with `--setsid` its work is in a session of its own."""

import os
import sys
import time

import torch

if "--setsid" in sys.argv:
    if os.fork():
        time.sleep(1000)
    os.setsid()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while True:
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    step += 1
    if step % 50 == 0:
        print("step", step, flush=True)
    time.sleep(0.01)
