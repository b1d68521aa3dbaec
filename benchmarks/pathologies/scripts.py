"""Small trainings with a planted fault, each with a dose; what `run.py` runs under Stoker.

    python benchmarks/pathologies/scripts.py hot_line --dose 2 [--fixed] [--seconds 5] [--device cuda]

Dose 0 is healthy, 1 to 3 cost ever more: about half, one and two times the model's own time of a tick where
that can be chosen; on a GPU, which has work for a while, more. `--fixed` is the same dose with the fault
mended as its page in docs/causes says. Each counts the cost it injected by its own clock, and ticks per
second from the tenth tick on; the last line it prints is that, as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
from importlib import import_module

import torch
from index import ALL, EVERYWHERE
from lab import Job


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=list(ALL))
    parser.add_argument("--dose", type=int, default=0, choices=range(4))
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--device", choices=EVERYWHERE, default="cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    job = Job(args.dose, args.fixed, args.seconds, args.device)
    module, _, function = ALL[args.name][0].partition(".")
    getattr(import_module(module), function)(job)
    if job.ticks and os.environ.get("RANK", "1") == "1":
        print(json.dumps(job.result()), flush=True)


if __name__ == "__main__":
    main()
