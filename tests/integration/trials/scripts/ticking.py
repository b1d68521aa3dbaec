"""Ticks for ever, with the stub of torch; with `--setsid` its work is in a session of its own."""

import os
import sys
import time

import torch

if "--setsid" in sys.argv:
    if os.fork():
        time.sleep(1000)
    os.setsid()
model, optimizer = torch.nn.Linear(), torch.optim.SGD()
step = 0
while True:
    torch.autograd.backward(model([1]))
    optimizer.step()
    step += 1
    if step % 50 == 0:
        print("step", step, flush=True)
    time.sleep(0.01)
