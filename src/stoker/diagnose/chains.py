"""Chains of element by element kernels in a deep window: each reads and writes all of its tensors once more.

A chain is what follows without another kind of kernel in between on one stream. One kernel in place of n
would move about an n-th of the memory: so much can be saved, at most. Short ones are in every model (an
activation and its bias); long ones are written by hand. Kernels that take next to no time are no links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from stoker.model.deep import DeviceEvent

CHAIN_KERNELS, CHAIN_LINKS = 8, 6.0
"""Of a chain, at least: its kernels, and its links, as many as would take its time if all were alike. Of 58
trainings on an H200 without such a fault, models of all kinds among them, one had more than 1 % of its kernel
time in chains of eight kernels, an LSTM with 10 %; two with the fault had 52 and 95 % (2026-11-16). In chains
of five some had up to 46 %. The backward of a net of convolutions has 34 % in chains of eight, of which two
are casts of some microseconds beside others of 160 (5.9 links at most, 2026-11-19)."""
_ELEMENTWISE = "elementwise_kernel"


@dataclass(frozen=True, slots=True)
class Chains:
    """Shares of all kernel time."""

    frac: float
    saved_frac: float
    """At most, by one kernel in place of each chain."""
    links: float
    """Of a chain, on average over their time; those that are too short to matter count as a part of one."""


def chains(kernels: Sequence[DeviceEvent]) -> Chains | None:
    """None without kernels."""
    total_s = sum(event.seconds for event in kernels)
    if not total_s:
        return None
    spent = [(_links(chain), sum(event.seconds for event in chain)) for chain in _long(kernels)]
    chained_s = sum(seconds for _, seconds in spent)
    saved_s = sum(seconds * (1 - 1 / links) for links, seconds in spent)
    links = sum(links * seconds for links, seconds in spent) / chained_s if chained_s else 0.0
    return Chains(chained_s / total_s, saved_s / total_s, links)


def _long(kernels: Sequence[DeviceEvent]) -> Iterator[list[DeviceEvent]]:
    ordered = sorted(kernels, key=lambda event: (event.stream, event.start_s))
    for (_, alike), group in groupby(ordered, key=lambda event: (event.stream, _ELEMENTWISE in event.name)):
        chain = list(group)
        if alike and len(chain) >= CHAIN_KERNELS and _links(chain) >= CHAIN_LINKS:
            yield chain


def _links(chain: Sequence[DeviceEvent]) -> float:
    squares = sum(event.seconds**2 for event in chain)
    return sum(event.seconds for event in chain) ** 2 / squares if squares else 0.0
