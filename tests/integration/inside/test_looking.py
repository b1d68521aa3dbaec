"""Looking at a thread that goes on meanwhile, as hard as it gets: a crash here would be the training's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import stoker

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


def test_a_stack_is_walked_while_its_thread_goes_on() -> None:
    source = Path(stoker.__file__).parents[1]
    command = [sys.executable, "-X", "faulthandler", "-c", SCRIPT]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 50
