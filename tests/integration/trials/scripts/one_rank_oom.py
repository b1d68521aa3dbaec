"""Two ranks with gloo; after some steps one of them runs out of GPU memory, the other waits in all_reduce.

`raises`: the rank dies of it. `stays`: it catches it, prints it and goes on waiting for nobody.
"""

import os
import socket
import sys
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORDS = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.31 "
    "GiB is free."
)


def work(rank, port, how):
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), "2"
    where = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", where, rank=rank, world_size=2, timeout=timedelta(minutes=30))
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(40):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        if step == 30 and rank == 1:
            run_out_of_memory(how)
        dist.all_reduce(model.weight.grad)
        optimizer.step()


def run_out_of_memory(how):
    print("out of memory at", time.time(), flush=True)
    try:
        raise torch.cuda.OutOfMemoryError(WORDS)
    except torch.cuda.OutOfMemoryError:
        if how == "raises":
            raise
        traceback.print_exc()
        time.sleep(3600)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    port, context = free_port(), mp.get_context("spawn")
    ranks = [context.Process(target=work, args=(rank, port, sys.argv[1])) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    sys.exit(max(abs(rank.exitcode) for rank in ranks))
