"""Made-up tick times whose true steady speed is known.

`DESIGN` was looked at while the rule was chosen. `FIRST_HELD_OUT` was scored once (90.7 %),
then looked at: two faults of the rule were found in it, so it counts as design since. `HELD_OUT` was written
after that and scored once: whoever changes the rule after looking at those scores has to write new families.
A family without a true speed has none to find: the right answer is "unsteady".
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

TICKS_S = (0.012, 0.04, 0.1, 0.3)
"""Lengths of a tick: from 3,000 ticks in 36 s to 3 minutes of 600 ticks."""


@dataclass(frozen=True)
class Trace:
    durations_s: list[float]
    truth_s: float | None
    """True mean time of a tick once it is steady; None: it never is."""
    periods: tuple[float, ...] = ()


Family = Callable[[random.Random, int], "tuple[list[float], float | None, tuple[float, ...]]"]
"""From a number of ticks: times in units of the usual tick, the true mean, the periods known from hooks."""


def trace(family: Family, seed: int, tick_s: float, ticks: int) -> Trace:
    values, truth, periods = family(random.Random(seed), ticks)
    scaled = [max(0.05, value) * tick_s for value in values]
    return Trace(scaled, truth * tick_s if truth is not None else None, periods)


def white(chance: random.Random, n: int, spread: float) -> list[float]:
    return [1 + chance.gauss(0, spread) for _ in range(n)]


def related(chance: random.Random, n: int, spread: float, rho: float) -> list[float]:
    """AR(1) noise of that spread."""
    state, push = chance.gauss(0, spread), spread * math.sqrt(1 - rho * rho)
    found = []
    for _ in range(n):
        found.append(1 + state)
        state = rho * state + chance.gauss(0, push)
    return found


def warming(values: list[float], height: float = 0.4, tau: float = 60, compile_ticks: int = 3) -> list[float]:
    """A few ticks that compile, then caches, workers and clocks that settle."""
    return [
        value + height * math.exp(-i / tau) + (20 if i < compile_ticks else 0)
        for i, value in enumerate(values)
    ]


def stalled(values: list[float], every: int, extra: float, phase: int = 0) -> list[float]:
    return [value + (extra if (i + phase) % every == every - 1 else 0) for i, value in enumerate(values)]


def stepped(values: list[float], at: int, height: float) -> list[float]:
    return [value + (height if i < at else 0) for i, value in enumerate(values)]


# -- design: the rule was chosen on these ----------------------------------------------------------------


def white_5(chance, n):
    return warming(white(chance, n, 0.05)), 1.0, ()


def related_9(chance, n):
    return warming(related(chance, n, 0.05, 0.9)), 1.0, ()


def loader_8(chance, n):
    return warming(stalled(related(chance, n, 0.05, 0.5), 8, 0.8)), 1.1, ()


def checkpoint_100(chance, n):
    return warming(stalled(related(chance, n, 0.05, 0.5), 100, 10)), 1.1, ()


def slow_transient(chance, n):
    return warming(related(chance, n, 0.05, 0.5), 0.4, 250), 1.0, ()


def step_at_400(chance, n):
    return stepped(related(chance, n, 0.05, 0.5), 400, 0.2), 1.0 if n > 400 else 1.2, ()


def step_at_1500(chance, n):
    return stepped(related(chance, n, 0.05, 0.5), 1500, 0.1), 1.0 if n > 1500 else 1.1, ()


def loader_and_checkpoint(chance, n):
    values = stalled(related(chance, n, 0.05, 0.5), 8, 0.8)
    return warming(stalled(values, 250, 15)), 1.0 + 0.1 + 15 / 250, ()


def heavy_tail(chance, n):
    """Each tick takes up to 20 times its time, rarely."""
    mean = 1 + 0.05 * sum(min(20, (1 - (k + 0.5) / 10000) ** (-1 / 1.5)) for k in range(10000)) / 10000
    return [1 + 0.05 * min(20, chance.paretovariate(1.5)) for _ in range(n)], mean, ()


def no_warm_up(chance, n):
    return white(chance, n, 0.03), 1.0, ()


def endless_drift_6(chance, n):
    return [value + 0.06 * i / 1000 for i, value in enumerate(related(chance, n, 0.05, 0.5))], None, ()


def step_near_the_end(chance, n):
    return stepped(white(chance, n, 0.04), round(0.8 * n), -0.08), None, ()


def rare_random_stalls(chance, n):
    values = [value + (25 if chance.random() < 1 / 500 else 0) for value in white(chance, n, 0.04)]
    return values, 1.0 + 25 / 500, ()


DESIGN: dict[str, tuple[str, Family]] = {
    "white_5": ("white noise 5 %, warm-up 40 % tau 60", white_5),
    "related_9": ("AR(.9) noise 5 %, same warm-up", related_9),
    "loader_8": ("AR(.5), every 8th tick +80 %", loader_8),
    "checkpoint_100": ("AR(.5), +10 ticks every 100", checkpoint_100),
    "slow_transient": ("AR(.5), warm-up 40 % tau 250", slow_transient),
    "step_at_400": ("AR(.5), 20 % faster from tick 400 on", step_at_400),
    "step_at_1500": ("AR(.5), 10 % faster from tick 1500 on", step_at_1500),
    "loader_and_checkpoint": ("loader_8 and +15 ticks every 250", loader_and_checkpoint),
    "heavy_tail": ("Pareto(1.5) tail", heavy_tail),
    "no_warm_up": ("white noise 3 %", no_warm_up),
    "endless_drift_6": ("6 % slower every 1000 ticks; no steady speed", endless_drift_6),
    "step_near_the_end": ("8 % slower in the last fifth; no steady speed", step_near_the_end),
    "rare_random_stalls": ("+25 ticks once in 500 by chance", rare_random_stalls),
}


# -- held out at first, looked at since -------------------------------------------------------


def strong_transient(chance, n):
    return warming(related(chance, n, 0.05, 0.8), 0.6, 120), 1.0, ()


def two_steps(chance, n):
    values = stepped(related(chance, n, 0.04, 0.6), 200, 0.25)
    return stepped(values, 700, 0.12), 1.0, ()


def _sawtooth(chance, n):
    values = [value + 0.15 * ((i % 400) / 400 - 0.5) for i, value in enumerate(related(chance, n, 0.04, 0.5))]
    return stalled(values, 400, 20), 1.0 + 20 / 400


def sawtooth_known(chance, n):
    return (*_sawtooth(chance, n), (400.0,))


def sawtooth_unknown(chance, n):
    return (*_sawtooth(chance, n), ())


def two_modes(chance, n):
    values, side = [], chance.choice((-1, 1))
    for value in white(chance, n, 0.02):
        side = -side if chance.random() < 1 / 150 else side
        values.append(value + 0.06 * side)
    return values, 1.0, ()


def random_stalls(chance, n):
    values = [value + (20 if chance.random() < 1 / 300 else 0) for value in related(chance, n, 0.04, 0.5)]
    return values, 1.0 + 20 / 300, ()


def clean_2(chance, n):
    return white(chance, n, 0.02), 1.0, ()


def endless_drift_2(chance, n):
    return [value + 0.02 * i / 1000 for i, value in enumerate(white(chance, n, 0.02))], None, ()


def endless_drift_half(chance, n):
    return [value + 0.005 * i / 1000 for i, value in enumerate(white(chance, n, 0.02))], None, ()


def rollout_and_update(chance, n):
    """On-policy: 40 updates, then a rollout that lasts as long as 25, in the tick that follows."""
    values = [
        value + (25 * chance.gauss(1, 0.08) if i % 40 == 0 else 0)
        for i, value in enumerate(white(chance, n, 0.06))
    ]
    return warming(values, 0.3, 40), 1.0 + 25 / 40, (40.0,)


def ramp(chance, n):
    """Falls in a straight line from +20 %, for the first 300 ticks."""
    values = related(chance, n, 0.03, 0.7)
    return [value + 0.2 * max(0.0, 1 - i / 300) for i, value in enumerate(values)], 1.0, ()


def slow_wander(chance, n):
    return related(chance, n, 0.02, 0.98), 1.0, ()


def growing_collections(chance, n):
    """A pause every 60 ticks, each sixth one long."""
    values = stalled(stalled(white(chance, n, 0.03), 60, 1.2), 360, 6)
    return values, 1.0 + 1.2 / 60 + 6 / 360, ()


def throttled_for_a_while(chance, n):
    """7 % slower from 55 % to 90 % of the run: there is no one speed."""
    low, high = round(0.55 * n), round(0.9 * n)
    values = white(chance, n, 0.03)
    return [value + (0.07 if low <= i < high else 0) for i, value in enumerate(values)], None, ()


def skewed(chance, n):
    """Log-normal times, 35 %, with every 16th batch late by one tick's length."""
    mean = math.exp(0.35**2 / 2)
    return stalled([chance.lognormvariate(0, 0.35) for _ in range(n)], 16, 1.0), mean + 1 / 16, ()


FIRST_HELD_OUT: dict[str, tuple[str, Family]] = {
    "strong_transient": ("warm-up 60 % tau 120, AR(.8)", strong_transient),
    "two_steps": ("faster at tick 200 and again at 700, AR(.6)", two_steps),
    "sawtooth_known": ("epoch of 400 that slows by 15 %, +20 ticks at its end, period known", sawtooth_known),
    "sawtooth_unknown": ("the same, period not known", sawtooth_unknown),
    "two_modes": ("±6 %, switching once in 150 ticks", two_modes),
    "random_stalls": ("+20 ticks once in 300 by chance", random_stalls),
    "clean_2": ("white noise 2 %", clean_2),
    "endless_drift_2": ("2 % slower every 1000 ticks; no steady speed", endless_drift_2),
    "endless_drift_half": ("0.5 % slower every 1000 ticks; no steady speed", endless_drift_half),
    "rollout_and_update": (
        "40 updates, then a rollout of 25 ticks' length, period known",
        rollout_and_update,
    ),
    "ramp": ("falls from +20 % in a straight line over 300 ticks, AR(.7)", ramp),
    "slow_wander": ("AR(.98) noise 2 %", slow_wander),
    "growing_collections": ("a pause every 60 ticks, a long one every 360", growing_collections),
    "throttled_for_a_while": (
        "7 % slower from 55 % to 90 % of the run; no steady speed",
        throttled_for_a_while,
    ),
    "skewed": ("log-normal 35 %, every 16th tick +1", skewed),
}


# -- held out: written after the last change of the rule, scored once --------------------------------------


def two_decays(chance, n):
    """Workers start at once, the page cache fills slowly."""
    values = warming(related(chance, n, 0.04, 0.7), 0.5, 30)
    return [value + 0.1 * math.exp(-i / 200) for i, value in enumerate(values)], 1.0, ()


def slower_from_300_on(chance, n):
    """As when a buffer is full enough and the updates begin."""
    return [value + (0.12 if i >= 300 else 0) for i, value in enumerate(white(chance, n, 0.05))], 1.12, ()


def boost_clocks(chance, n):
    """The first ticks are the fastest."""
    values = related(chance, n, 0.02, 0.6)
    return [value - 0.05 * math.exp(-i / 100) for i, value in enumerate(values)], 1.0, ()


def restarted_workers(chance, n):
    """At each epoch end +8 ticks, then a few slow ones; the period is known."""
    values = [value + 0.5 * math.exp(-(i % 250) / 5) for i, value in enumerate(related(chance, n, 0.05, 0.4))]
    after = 0.5 * sum(math.exp(-i / 5) for i in range(250)) / 250
    return stalled(values, 250, 8), 1.0 + 8 / 250 + after, (250.0,)


def pauses_of_173(chance, n):
    return stalled(white(chance, n, 0.04), 173, 5, chance.randrange(173)), 1.0 + 5 / 173, ()


def starved_loader_10(chance, n):
    """Ten workers: one tick in ten waits for all of them."""
    values = [
        value + (3 * chance.lognormvariate(0, 0.2) / math.exp(0.02) if i % 10 == 9 else 0)
        for i, value in enumerate(white(chance, n, 0.05))
    ]
    return warming(values, 0.4, 50), 1.3, ()


def env_resets(chance, n):
    """Many small stalls by chance."""
    values = [value + (3 if chance.random() < 1 / 40 else 0) for value in white(chance, n, 0.05)]
    return values, 1.0 + 3 / 40, ()


def stalls_by_chance(chance, n):
    values = [value + (15 if chance.random() < 1 / 200 else 0) for value in related(chance, n, 0.05, 0.6)]
    return warming(values, 0.3, 60), 1.0 + 15 / 200, ()


def slow_modes(chance, n):
    """Two speeds, 4 % up or down, for 400 ticks each or so."""
    values, side = [], chance.choice((-1, 1))
    for value in white(chance, n, 0.03):
        side = -side if chance.random() < 1 / 400 else side
        values.append(value + 0.04 * side)
    return values, 1.0, ()


def noisier_later(chance, n):
    """The same mean, but from 40 % of the run on four times the noise."""
    return [1 + chance.gauss(0, 0.02 if i < 0.4 * n else 0.08) for i in range(n)], 1.0, ()


def related_95(chance, n):
    return related(chance, n, 0.04, 0.95), 1.0, ()


def save_every_500(chance, n):
    """A long save with a known period: the shortest runs see it once."""
    return warming(stalled(white(chance, n, 0.04), 500, 30), 0.4, 80), 1.0 + 30 / 500, (500.0,)


def drift_3_over_the_run(chance, n):
    return [value + 0.03 * i / n for i, value in enumerate(related(chance, n, 0.03, 0.5))], None, ()


def growth_as_a_root(chance, n):
    """A buffer or a log that grows: 5 % slower at the end, most of it early."""
    return [value + 0.05 * math.sqrt(i / n) for i, value in enumerate(white(chance, n, 0.03))], None, ()


def faster_near_the_end(chance, n):
    """As when another job on the card ends."""
    return stepped(related(chance, n, 0.04, 0.5), round(0.85 * n), 0.10), None, ()


HELD_OUT: dict[str, tuple[str, Family]] = {
    "two_decays": ("warm-up 50 % tau 30 and 10 % tau 200, AR(.7)", two_decays),
    "slower_from_300_on": ("12 % slower from tick 300 on", slower_from_300_on),
    "boost_clocks": ("5 % faster at first, tau 100, AR(.6)", boost_clocks),
    "restarted_workers": ("+8 ticks every 250 and slow ticks after, period known", restarted_workers),
    "pauses_of_173": ("+5 ticks every 173, period not known", pauses_of_173),
    "starved_loader_10": ("every 10th tick about +3", starved_loader_10),
    "env_resets": ("+3 ticks once in 40 by chance", env_resets),
    "stalls_by_chance": ("+15 ticks once in 200 by chance, AR(.6)", stalls_by_chance),
    "slow_modes": ("±4 %, switching once in 400 ticks", slow_modes),
    "noisier_later": ("noise 2 %, from 40 % of the run on 8 %", noisier_later),
    "related_95": ("AR(.95) noise 4 %", related_95),
    "save_every_500": ("+30 ticks every 500, period known", save_every_500),
    "drift_3_over_the_run": ("3 % slower from begin to end; no steady speed", drift_3_over_the_run),
    "growth_as_a_root": ("5 % slower at the end, as a square root; no steady speed", growth_as_a_root),
    "faster_near_the_end": ("10 % faster in the last 15 %; no steady speed", faster_near_the_end),
}
