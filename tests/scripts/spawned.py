"""Two ranks started by torch.multiprocessing.spawn from one script. Gloo, on the CPU.

Tick: an optimizer step of each rank; the parent has none. Losses go to FILE.rank0 and FILE.rank1.
"""

import tempfile

import torch.distributed as dist
import torch.multiprocessing
from ddp import leave, train
from tiny_job import Losses, arguments, report

RANKS = 2


def work(rank: int, meeting_point: str, steps: int, losses: str | None) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=RANKS)
    train(rank, steps, Losses(losses and f"{losses}.rank{rank}"))
    report(rank=rank, ticks=steps, env_steps=0)
    leave()


def main() -> None:
    args = arguments(__doc__, steps=100)
    with tempfile.TemporaryDirectory() as folder:
        shared = (f"{folder}/meeting", args.steps, args.losses)
        torch.multiprocessing.spawn(work, args=shared, nprocs=RANKS)


if __name__ == "__main__":
    main()
