"""Looking at a thread that goes on meanwhile, as hard as it gets: a crash here would be the training's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stoker

from .test_environments import required

# Functions of many sizes, so that a frame that is gone is soon written over by one of another shape; cyclic
# garbage and a collector that lets go of the lock each time, as any finalizer may.
SCRIPT = """
import gc, random, sys, threading, time
from stoker.inside.pulse import stack_of

functions = []
for size in range(1, 40, 3):
    names = ", ".join("v%d" % number for number in range(size))
    space = {"functions": functions, "choice": random.choice}
    exec("def call(depth):\\n    %s, = [object() for _ in range(%d)]\\n    loop = []; loop.append(loop)\\n"
         "    return depth and choice(functions)(depth - 1)" % (names, size), space)
    functions.append(space["call"])

gc.callbacks.append(lambda phase, info: time.sleep(0))
sys.setswitchinterval(1e-5)
thresholds, main, looks, ended = gc.get_threshold(), threading.get_ident(), [], threading.Event()

def look():
    while not ended.is_set():
        looks.append(len(stack_of(main)))
        time.sleep(0)

thread = threading.Thread(target=look)
thread.start()
while len(looks) < 6000:
    random.choice(functions)(random.randrange(60))
ended.set()
thread.join()
assert gc.get_threshold() == thresholds
print(max(looks))
"""


# All other threads end in a collection that begins while their clocks are asked for.
CLOCKS = """
import gc, sys, threading, time
from stoker.inside import threads

threading.stack_size(64 << 20)
ends = [threading.Event() for _ in range(40)]
for end in ends:
    threading.Thread(target=end.wait, daemon=True).start()
time.sleep(0.1)

def let_them_end(phase, info):
    if phase == "start" and sys._getframe(1).f_code.co_name == "at_once":
        for end in ends:
            end.set()
        time.sleep(0.2)

gc.collect()
gc.callbacks.append(let_them_end)
gc.set_threshold(int(sys.argv[1]))
print(len(threads._cpu_times()))
gc.callbacks.clear()
"""


def run(python: str, script: str, *args: str) -> int:
    source = Path(stoker.__file__).parents[1]
    command = [python, "-X", "faulthandler", "-c", script, *args]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


def test_a_stack_is_walked_while_its_thread_goes_on() -> None:
    assert run(sys.executable, SCRIPT) > 50


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13"])
@pytest.mark.parametrize("threshold", [12, 25, 40])
def test_no_thread_ends_while_its_clock_is_asked_for(version: str, threshold: int) -> None:
    assert run(required(version), CLOCKS, str(threshold)) in (1, 41), "they end before, or none does"


# What the training does not see: it runs C code, which lets go of the interpreter. The other thread notes how
# often the switch interval was a short one, second by second.
BESIDE = """
import hashlib, sys, threading, time
import torch

seen, begun_s, block = {}, time.perf_counter(), bytes(300_000)
usual = sys.getswitchinterval()

def compute():
    while True:
        if sys.argv[1] == "loop":
            sum(number * number for number in range(1000))
        else:
            hashlib.sha256(block).digest()
        if sys.getswitchinterval() < usual / 2:
            second = int(time.perf_counter() - begun_s)
            seen[second] = seen.get(second, 0) + 1

model, optimizer = torch.nn.Linear(), torch.optim.SGD()
threading.Thread(target=compute, daemon=True).start()
while time.perf_counter() < begun_s + 8:
    hashlib.sha256(block).digest()
    optimizer.zero_grad()
    torch.autograd.backward(model([1]))
    optimizer.step()
print(sorted(seen))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="whether Python computes cannot be told")
@pytest.mark.parametrize("what", ["loop", "hash"])
def test_a_thread_that_wants_the_interpreter_is_not_helped(
    what: str, watch, stub_env, tmp_path: Path
) -> None:
    """Nor is one that computes in C taken for such a one: lines of pure Python would be missed for it."""
    script = tmp_path / "train.py"
    script.write_text(BESIDE)
    done = watch("python", str(script), what, env=stub_env)
    assert done.code == 0, done.err
    assert not done.record.hook_failures
    late = [second for second in json.loads(done.out) if second >= 5]
    assert late == [] if what == "loop" else len(late) >= 2, done.out


SLACK = """
import os, time
import torch

model, optimizer = torch.nn.Linear(), torch.optim.SGD()
for _ in range(30):
    torch.autograd.backward(model([1]))
    optimizer.step()
    time.sleep(0.01)
threads = sorted(os.listdir("/proc/self/task"), key=int)
print(*(open("/proc/%s/timerslack_ns" % thread).read().strip() for thread in threads))
"""


@pytest.mark.skipif(not Path("/proc/self/timerslack_ns").exists(), reason="the kernel does not tell")
def test_only_the_thread_that_looks_wakes_up_on_time(watch, stub_env, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SLACK)
    done = watch("python", str(script), env=stub_env)
    assert done.code == 0, done.err
    usual = Path("/proc/self/timerslack_ns").read_text().strip()
    assert done.out.split() == [usual, "1"]


FINALIZERS = """
import sys, threading, time
import torch

main, where = threading.get_ident(), {True: 0, False: 0}

class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        where[threading.get_ident() == main] += 1

model, optimizer = torch.nn.Linear(), torch.optim.SGD()
ends = time.perf_counter() + 5
while time.perf_counter() < ends:
    kept = [[number] for number in range(30)]
    Cycle()
    torch.autograd.backward(model([1]))
    optimizer.step()
print(where[True] > 500, where[False])
"""


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_finalizers_run_in_the_scripts_own_threads(version: str, watch, stub_env, tmp_path: Path) -> None:
    """Where they touch what is of one thread alone, they abort elsewhere."""
    script = tmp_path / "train.py"
    script.write_text(FINALIZERS)
    done = watch(required(version), str(script), env=stub_env)
    assert (done.code, done.err, done.out) == (0, "", "True 0\n")


REPLACED = """
import sys, time, _thread
replaced = []

def patched(name, module):
    original = getattr(module, name)
    def call(*args):
        replaced.append(name)
        return original(*args)
    setattr(module, name, call)

for name in ("sleep", "time", "perf_counter", "thread_time"):
    patched(name, time)
for name in ("start_new_thread", "allocate_lock"):
    patched(name, _thread)

import torch
del replaced[:]
model, optimizer = torch.nn.Linear(), torch.optim.SGD()
for _ in range(3000):
    torch.autograd.backward(model([1]))
    optimizer.step()
print(sorted(set(replaced)))
"""


def test_what_a_script_puts_in_the_place_of_clocks_and_threads_is_not_called(
    watch, stub_env, tmp_path: Path
) -> None:
    """A virtual clock would go on by itself, a green thread block the training."""
    script = tmp_path / "train.py"
    script.write_text(REPLACED)
    done = watch("python", str(script), env=stub_env)
    assert (done.code, done.err, done.out) == (0, "", "[]\n")
    assert done.record.last.ticks == 3000


def test_an_interrupt_that_a_prompt_has_handled_is_no_end(watch, stub_env, tmp_path: Path) -> None:
    script = tmp_path / "shell.py"
    script.write_text("import sys, torch\nsys.ps1 = '> '\nsys.last_value = KeyboardInterrupt()\n")
    assert watch("python", str(script), env=stub_env).code == 0
