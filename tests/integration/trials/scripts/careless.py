"""A training as people have them: saves to an absolute path, resumes from there, refuses an out-folder that
is there, and has flags that do nothing."""

import argparse
import os
import sys
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--nap", type=float, default=0.005)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--cuda-prefetch", type=int, default=0)
args = parser.parse_args()

checkpoint = os.path.join(os.getcwd(), "ckpt", "last.pt")
if os.path.exists(args.out):
    sys.exit(f"{args.out} exists already, refusing to overwrite it")
os.makedirs(args.out)
os.makedirs("ckpt", exist_ok=True)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
step = 0
if os.path.exists(checkpoint):
    state = torch.load(checkpoint)
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
print("began at step", step, flush=True)
log = open(os.path.join(args.out, "log.csv"), "w")  # noqa: SIM115
while True:
    optimizer.zero_grad()
    loss = model(torch.randn(args.batch_size, 4)).square().mean()
    loss.backward()
    optimizer.step()
    step += 1
    time.sleep(args.nap)
    log.write(f"{step},{loss.item()}\n")
    if step % 10 == 0:
        torch.save({"optimizer": optimizer.state_dict(), "step": step}, checkpoint)
