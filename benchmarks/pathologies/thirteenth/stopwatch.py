"""The clock, the flags and the doses of these scripts: those of `fifth/`, found from here."""

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from fifth.stopwatch import Meter
from third.stopwatch import blanks

__all__ = ["Meter", "amount_taking", "beside_orders_s", "blanks"]


def amount_taking(meter, work, few, many, wanted_s, calls=20):
    """How much of it lasts so long; `work` of an amount is to be called, and lasts in proportion to it."""
    few_s, many_s = (meter.timed_s(work(amount), calls=calls) for amount in (few, many))
    each_s = max((many_s - few_s) / (many - few), many_s / many / 4)
    return max(few, round(few + (wanted_s - few_s) / each_s))


def beside_orders_s(meter, step, wanted_s, steps=4):
    """The same for the training's own thread: on a GPU, what a step's orders take is taken off."""
    if not meter.gpu:
        return wanted_s
    step()
    spent_s = 0.0
    for _ in range(steps):
        meter.sync()
        begin_s = time.perf_counter()
        step()
        spent_s += time.perf_counter() - begin_s
    meter.sync()
    return max(0.2 * wanted_s, wanted_s - spent_s / steps)
