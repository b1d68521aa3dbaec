"""How far the GPU is behind the host, summed up per phase over some iterations chosen at random."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PhaseLead:
    """Seconds of the iterations looked at."""

    host_s: float
    """Of the training thread in this phase."""
    idle_s: float
    """The GPU had nothing to do and was given nothing: measured."""
    near_s: float
    """Work was issued piece by piece to a GPU that had none left: some of it idle, launching."""
    unknown_s: float
    """The GPU ran dry somewhere in it."""


@dataclass(frozen=True, slots=True)
class Lead:
    by: str
    """`events` (CUDA events at the edges of phases) or `asked` (a loop that waits for the GPU: the stream was
    asked whether it is done; no event was recorded)."""
    device: int
    """torch's index."""
    stream: int
    """Of which the figures speak; 0 is the default stream."""
    streams_seen: int
    iterations: int
    ticks: int
    wall_s: float
    cost_s: float
    """What looking took."""
    doubt_s: float
    """Of the place of the GPU's clock on the host's, at worst."""
    phases: dict[str, PhaseLead]
