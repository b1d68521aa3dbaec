"""CUDA graphs that a CPU plays: nothing is captured, a replay calls a function given for it. Import first."""

from __future__ import annotations

from collections.abc import Callable

import torch

_base = torch._C._CUDAGraph  # of a torch without CUDA: it cannot be made
_base.__new__ = staticmethod(lambda kind, *_: object.__new__(kind))
_base.__init__ = lambda graph, *_: None
_base.capture_begin = lambda graph, **_: None
_base.capture_end = lambda graph: None
_base.replay = lambda graph: graph.play()


def captured(work: Callable[[], object], play: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """`work` is what Python does while it is captured; `play` what a GPU would do afterwards."""
    graph = torch.cuda.CUDAGraph()
    graph.play = play
    graph.capture_begin()
    work()
    graph.capture_end()
    return graph
