# ruff: noqa: SIM115, B020, B007
"""A training that does to the user's folder all a trial must not do: see the tests for what it gets told."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import torch

home = sys.argv[1]  # absolute
where = os.path.join(home, "ckpt", "last.pt")
print("cwd", sorted(os.listdir(".")))
print("data", open("data/numbers.txt").read().strip())

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
step = 0
if os.path.exists(where):
    state = torch.load(where)
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
print("first step", step)

out = os.path.join(home, "run")
if os.path.exists(out):
    raise SystemExit(f"the folder {out} exists, refusing to overwrite it")
os.makedirs(os.path.join(out, "tb"))
events = open(os.path.join(out, "tb", "events.out.tfevents.1"), "ab")
os.makedirs(os.path.dirname(where), exist_ok=True)
for step in range(step, step + 20):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    events.write(b"x" * 100)
events.close()
torch.save({"optimizer": optimizer.state_dict(), "step": step + 1}, where)
assert torch.load(where)["step"] == step + 1

np.save("numbers.npy", np.arange(3))
assert np.load("numbers.npy").sum() == 3
with open("data/numbers.txt", "a") as stream:
    stream.write("more\n")
assert open("data/numbers.txt").read().endswith("more\n")
descriptor = os.open("notes.txt", os.O_WRONLY | os.O_TRUNC)  # one that is there: nothing is created
os.write(descriptor, b"new")
os.close(descriptor)
assert open("notes.txt").read() == "new"
table = sqlite3.connect("metrics.db")
table.execute("create table if not exists m (x)")
table.execute("insert into m values (1)")
table.commit()
print("rows", table.execute("select count(*) from m").fetchone()[0])
table.close()
if os.path.isdir("old"):
    shutil.rmtree("old")
assert not os.path.exists("old")
os.makedirs("old/new")
assert os.listdir("old") == ["new"]
os.rename("config.json", "config.json.bak")
with open("config.json", "w") as stream:
    json.dump({"seed": 2}, stream)
os.replace("config.json", "config2.json")
assert not os.path.exists("config.json")
assert json.load(open("config2.json")) == {"seed": 2}
os.remove("link")
subprocess.run([sys.executable, "-c", "open('by_child.txt', 'w').write('x')"], check=True)
assert os.path.exists("by_child.txt")
if "--sh" in sys.argv:
    subprocess.run(["sh", "-c", "echo shell > by_shell.txt && cat by_shell.txt"], check=True)
print("done")
