"""A neighbour on the card: a program of somebody else's that computes there for a share of the time.

    with neighbour(0.5, "cuda"): …           in the training
    python neighbour.py 0.5 cuda             the neighbour itself, which ends when its standard input does

Stoker takes for the run's what carries its marker or descends from the command. So the neighbour is started
without Stoker's variables, by a shell in a session of its own that ends at once. (The watcher looks once a
second: a look into that millisecond would take it for the run's, for good.) It ends with the training,
however that ends: nobody else has the other end of its standard input. (Workers of the training would.)
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

IN_BACKGROUND = 'exec 3<&0; "$@" <&3 3<&- &'
"""By way of a third descriptor: what a shell starts in the background has no standard input."""
INJECTED = str(Path("stoker", "inside", "site"))
BURST_S = 0.02
ENDING_S = 20.0
ROWS = {"cuda": 4096, "cpu": 256}
"""Of the matrices: 0.2 ms of an H200 a product. On a CPU it only stands in, for tests."""


@contextmanager
def neighbour(share: float, device: str) -> Iterator[int]:
    """Its PID. It computes when the block begins; after it it is gone, with what it had of the card."""
    command = [sys.executable, str(Path(__file__).resolve()), f"{share:g}", device]
    with subprocess.Popen(
        ["sh", "-c", IN_BACKGROUND, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=foreign(os.environ),
        start_new_session=True,
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        told = shell.stdout.readline()
        if not told:
            raise RuntimeError("the neighbour on the card did not start")
        process = os.pidfd_open(int(told))
        try:
            yield int(told)
        finally:
            shell.stdin.close()
            ended, _, _ = select.select([process], [], [], ENDING_S)
            os.close(process)
    if not ended:
        raise RuntimeError(f"the neighbour on the card, {int(told)}, does not end")


def foreign(env: Mapping[str, str]) -> dict[str, str]:
    """As it would be without Stoker and the lab."""
    kept = {name: value for name, value in env.items() if not name.startswith(("STOKER", "LAB_"))}
    if "PYTHONPATH" in kept:
        entries = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(entry for entry in entries if not entry.endswith(INJECTED))
    return kept


# -- the neighbour itself ----------------------------------------------------------------------------------


def main() -> None:
    threading.Thread(target=end_with_stdin, daemon=True).start()
    compute(float(sys.argv[1]), sys.argv[2])


def end_with_stdin() -> None:
    """At once, in whatever call into CUDA the other thread may be."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def compute(share: float, device: str) -> None:
    """In bursts: where the card is its own, so much of the time; beside another, half of each burst is."""
    import torch

    torch.set_num_threads(1)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    x = torch.randn(ROWS[device], ROWS[device], device=device, dtype=dtype)
    out = torch.empty_like(x)

    def products() -> None:
        for _ in range(8):
            torch.mm(x, x, out=out)
        if device == "cuda":
            torch.cuda.synchronize()

    products()
    print(os.getpid(), flush=True)
    while True:
        end_s = time.perf_counter() + BURST_S
        while time.perf_counter() < end_s:
            products()
        time.sleep(BURST_S * (1 / share - 1))


if __name__ == "__main__":
    main()
