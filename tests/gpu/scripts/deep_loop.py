"""Trainings for the deep window: KIND STEPS.

`launch` many small layers; `conv` a small ResNet in bf16; `compiled` and `reduce` torch.compile in two modes;
`graph` a captured forward and backward with an eager optimizer; `pageable` and `pinned` copy their rows to
the device at each step; `masked` picks rows by a mask behind a product of 0.4 ms; `scheduled`, `within` and
`later` use a torch.profiler of their own: all the time, in the middle of Stoker's window, and after it.
"""

import os
import sys

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch
from torch import nn
from turn import take_turn

TRAINED_S = 2.0


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.relu(rows + self.body(rows))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 256, 7, stride=4, padding=3)
        self.blocks = nn.Sequential(*(Block(256) for _ in range(8)))
        self.head = nn.Linear(256, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(rows)).mean((2, 3)))


class Loop:
    def __init__(self, kind: str) -> None:
        torch.manual_seed(0)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
        self.kind = kind
        if kind == "conv":
            self.model = Images().cuda().to(memory_format=torch.channels_last)
            shape = (64, 3, 128, 128)
            self.rows = torch.randn(shape).cuda().to(memory_format=torch.channels_last)
        else:
            layers = [layer for _ in range(24) for layer in (nn.Linear(64, 64), nn.ReLU())]
            self.model = nn.Sequential(*layers).cuda()
            self.host_rows = torch.randn(64, 64)
            self.rows = self.host_rows.cuda()
        if kind == "masked":
            self.large = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)
            self.mask = torch.arange(8192, device="cuda") % 3 == 0
        if kind == "pinned":
            self.host_rows = self.host_rows.pin_memory()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
        mode = {"compiled": "default", "reduce": "reduce-overhead"}.get(kind)
        self.call = torch.compile(self.model, mode=mode) if mode else self.model
        self.graph = self.captured() if kind == "graph" else None

    def loss(self) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.kind == "conv"):
            return self.call(self.rows).float().square().mean()

    def captured(self) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self.loss().backward()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.last = self.loss()
            self.last.backward()
        return graph

    def step(self) -> None:
        if self.kind in ("pageable", "pinned"):
            self.rows = self.host_rows.cuda()
        if self.graph is not None:
            self.graph.replay()
        else:
            self.optimizer.zero_grad()
            self.last = self.loss()
            self.last.backward()
        self.optimizer.step()
        if self.kind == "masked":
            self.picked = (self.large @ self.large.T)[self.mask]


def window_state() -> int | None:
    """Of Stoker's deep window: 0 waiting, 1 recording, 2 settling, 3 done."""
    if "_stoker_inside" not in sys.modules:
        return None
    from _stoker_inside import agent

    hook = agent.agent.hook("deep")
    return hook.window.state if hook else None


def profiled(loop: Loop, steps: int) -> bool:
    """Does a torch.profiler of the script's own see kernels?"""
    activity = torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=[activity]) as own:
        for _ in range(steps):
            loop.step()
    return any("gemm" in event.name or "kernel" in event.name for event in own.events())


def main(kind: str, steps: int) -> None:
    if "_stoker_inside" in sys.modules:
        from _stoker_inside import deep

        deep.TRAINED_S = TRAINED_S
    take_turn()
    loop = Loop(kind)
    own = seen = None
    if kind == "scheduled":
        own = torch.profiler.profile(schedule=torch.profiler.schedule(wait=10**9, warmup=1, active=1))
        own.start()
    done = 0
    while done < steps:
        if seen is None and window_state() == {"within": 1, "later": 3}.get(kind, -1):
            seen = profiled(loop, 5)
            done += 5
        loop.step()
        done += 1
    if own is not None:
        own.stop()
    torch.cuda.synchronize()
    print(loop.last.item().hex(), seen)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
