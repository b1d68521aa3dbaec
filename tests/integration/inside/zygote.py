"""Imports torch once, then runs each script it is told of in a fork of itself: a real run in half a second.

One job per line of stdin, as JSON; one line of stdout for each that ended. `site` is the folder of Stoker's
sitecustomize, or null for a run without it. `before` is code to run first, when Stoker is in.
"""

import atexit
import gc
import importlib.util
import json
import os
import runpy
import sys
import threading

import gymnasium
import lightning.pytorch.loops.evaluation_loop
import stable_baselines3
import torch
import torch._dynamo

PRELOADED = (gymnasium, lightning, stable_baselines3, torch)


def load_agent(site: str) -> None:
    spec = importlib.util.spec_from_file_location("sitecustomize", os.path.join(site, "sitecustomize.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module._agent() is not None


def become(job: dict) -> None:
    """In the child: everything is as if the script had been started by itself."""
    os.chdir(job["cwd"])
    os.environ.update(job["env"])
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = [job["script"], *job["argv"]]
    sys.path[0] = os.path.dirname(job["script"])
    exec(job["before"], {})
    if job["site"]:
        load_agent(job["site"])
    exec(job["after"], {})
    runpy.run_path(job["script"], run_name="__main__")


def leave() -> None:
    """Without taking the whole interpreter apart, which would cost more than most scripts do."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    torch.set_num_threads(1)
    torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1))  # imports a good deal
    torch._dynamo.reset()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            os.close(0)
            become(job)
            leave()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
