"""Folk remedies that would not help this run, each with the number that says why.

Advice that is often given and often right somewhere else. One is answered only where a signal of this run
speaks against it; where nothing is known, nothing is said. Rules see figures, never the names of scripts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from stoker.diagnose.causes.loading import Blame, blame
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.taken import signals
from stoker.diagnose.causes.thresholds import (
    CORES_BUSY_PCT,
    ELSEWHERE_CORES,
    FOLK_ENV_PCT,
    FOLK_FALLS,
    FOLK_FALLS_FRAC,
    FOLK_MOST_FRAC,
    FOLK_NOTHING_PCT,
    FOLK_RATIO_OFF,
    FOLK_SMALL_PCT,
    HEALTHY_WORK_PCT,
    MIN_TICKS,
    MIN_WINDOW_S,
    QUEUE_EMPTY_FRAC,
    SUPPLY_MARGIN,
)
from stoker.diagnose.summary import Summary, Trainer

_NO_FASTER = "utilisation may rise, throughput not"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Advice that does not fit this run."""

    name: str
    """Stable, for programs."""
    advice: str
    says: str
    value: float
    unit: str
    source: str


def not_worth_trying(summary: Summary) -> tuple[Remedy, ...]:
    """Empty where too little was seen to say so."""
    found, main = signals(summary), summary.main
    if found is None or main is None or found.ticks < MIN_TICKS or found.window_s < MIN_WINDOW_S:
        return ()
    return tuple(remedy for rule in _RULES if (remedy := rule(found, main)) is not None)


def _update_interval(found: Signals, main: Trainer) -> Remedy | None:
    """N updates after every N env steps: the same work in another order."""
    cycle = main.iteration
    if cycle is None or not cycle.env_calls:
        return None
    steps = cycle.env_calls * (found.envs_per_call or 1.0)
    updates = max(cycle.optimizer_steps.values(), default=0.0)
    ratio = updates / steps
    whole = max(1, round(ratio))
    if cycle.env_calls < 2 or updates < 2 or abs(ratio / whole - 1) > FOLK_RATIO_OFF:
        return None
    return Remedy(
        "update_interval",
        "another update interval",
        f"{updates:.4g} updates follow {steps:.4g} env steps: {whole} per env step, at any interval; "
        "the same work in another order",
        ratio,
        "updates per env step",
        "order of events",
    )


def _workers(found: Signals, main: Trainer) -> Remedy | None:
    view = found.loader
    advice = "more loader workers"
    if view is None:
        return None
    busy_pct = found.allowed_cpu_pct
    if blame(found) is Blame.CORES and busy_pct is not None and found.cores_allowed is not None:
        says = f"the {found.cores_allowed:.3g} cores it may use are in use {busy_pct:.0f} % of the time"
        return Remedy("num_workers", advice, says, busy_pct, "%", "host watcher")
    waits_pct, demand = 100 * found.lost("data"), found.demand_per_s
    enough = bool(view.supply_per_s and demand and view.supply_per_s >= SUPPLY_MARGIN * demand)
    if view.workers and enough and waits_pct < FOLK_SMALL_PCT and found.lost_pct.get("data") is not None:
        meanwhile = " of GPU time" if found.gpu else ""
        says = f"waiting for data costs {waits_pct:.1f} %{meanwhile}; {view.workers} deliver enough"
        return Remedy("num_workers", advice, says, waits_pct, "%", _source(found))
    return None


def _prefetch(found: Signals, main: Trainer) -> Remedy | None:
    view = found.loader
    if view is None or not view.workers or view.supply_per_s is None or found.demand_per_s is None:
        return None
    empty = view.loader.empty_frac
    slow = view.supply_per_s * SUPPLY_MARGIN < found.demand_per_s
    if blame(found) is None or not slow or empty is None or empty < QUEUE_EMPTY_FRAC:
        return None
    says = (
        f"the queue is empty at {100 * empty:.0f} % of the reads: loading is too slow on average, and a "
        "longer queue runs dry as well"
    )
    return Remedy("prefetch_factor", "a larger prefetch_factor", says, 100 * empty, "%", "loader workers")


def _batch(found: Signals, main: Trainer) -> Remedy | None:
    view, gpu = found.loader, found.gpu
    name, advice = "batch_size", "a larger batch"
    if blame(found) is not None and found.lost("data") >= FOLK_MOST_FRAC and view and view.supply_per_s:
        size = view.loader.batch_size
        if size:
            per_s = size * view.supply_per_s
            says = f"{_NO_FASTER}: the loader delivers {per_s:,.0f} samples/s at any batch"
            return Remedy(name, advice, says, per_s, "samples/s", "loader workers")
    env_pct = 100 * found.lost("env")
    if env_pct >= 100 * FOLK_MOST_FRAC:
        what = "leaves the GPU idle" if gpu else "takes"
        says = f"{_NO_FASTER}: the environment {what} {env_pct:.0f} % of the time"
        return Remedy(name, advice, says, env_pct, "%", _source(found))
    if gpu is not None and gpu.real_work_pct is not None and gpu.real_work_pct >= HEALTHY_WORK_PCT:
        says = f"the GPU does real work {gpu.real_work_pct:.0f} % of the time already"
        return Remedy(name, advice, says, gpu.real_work_pct, "%", gpu.real_work_source)
    return None


def _pinning(found: Signals, main: Trainer) -> Remedy | None:
    view = found.loader
    if view is None:
        return None
    copies_pct = found.host_pct.get("h2d", 0.0)
    if found.gpu is None and view.loader.pin_memory and copies_pct <= 0:
        says = "there is no GPU here and nothing is copied to one"
        return Remedy("pin_memory", "pin_memory=True", says, copies_pct, "%", "host clock")
    lost_pct = found.lost_pct.get("h2d")
    hidden = lost_pct is not None and lost_pct < FOLK_SMALL_PCT and copies_pct < FOLK_SMALL_PCT
    if found.gpu is None or view.loader.pin_memory or not hidden:
        return None
    says = f"copies to the GPU take {copies_pct:.1f} % of the time"
    return Remedy("pin_memory", "pin_memory and non_blocking copies", says, copies_pct, "%", "host clock")


def _kernels(found: Signals, main: Trainer) -> Remedy | None:
    """What makes the model's arithmetic faster, where there is little of it."""
    gpu = found.gpu
    busy_pct = gpu.busy_pct if gpu else found.compute_pct
    if busy_pct is None or busy_pct > FOLK_NOTHING_PCT or (gpu is not None and not gpu.alone):
        return None
    if found.own_code_trains:  # the model may be in there
        return None
    most = 1 / (1 - busy_pct / 100)
    who = "the GPU is busy" if gpu else "the model computes"
    advice = "cudnn.benchmark, AMP, TF32" if gpu else "a faster model"
    says = f"{who} {busy_pct:.0f} % of the time: at most {most:.2f}× as fast were all of it free"
    return Remedy("faster_kernels", advice, says, busy_pct, "%", _source(found))


def _environments(found: Signals, main: Trainer) -> Remedy | None:
    busy_pct = found.allowed_cpu_pct
    elsewhere = (found.elsewhere_cores or 0.0) >= ELSEWHERE_CORES or found.env_processes > 0
    waits = found.host_pct.get("env", 0.0) >= FOLK_ENV_PCT
    if (
        busy_pct is None
        or busy_pct < CORES_BUSY_PCT
        or not elsewhere
        or not waits
        or not found.env_steps_per_s
    ):
        return None
    allowed = f"{found.cores_allowed:.3g} " if found.cores_allowed else ""
    says = f"the {allowed}cores it may use are in use {busy_pct:.0f} % of the time"
    return Remedy("num_envs", "more environment processes", says, busy_pct, "%", "host watcher")


def _empty_cache(found: Signals, main: Trainer) -> Remedy | None:
    """torch's allocator keeps what it has, unless it runs out: where it shrinks, it is told to."""
    start_s = main.window.parts[0][0] if main.window.parts else 0.0
    index = main.gpus.main.index if main.gpus.main else None
    rows = [use for use in main.record.devices if use.index == index and use.t_s >= start_s]
    held = [use.reserved_bytes for use in rows if use.reserved_bytes is not None]
    ran_out = any((late.retries or 0) > (early.retries or 0) for early, late in pairwise(rows))
    falls = sum(late < early for early, late in pairwise(held))
    if ran_out or falls < FOLK_FALLS or falls < FOLK_FALLS_FRAC * (len(held) - 1):
        return None
    says = (
        f"memory was given back to the driver and asked for again: what torch holds fell at {falls} of "
        f"{len(held)} looks, and it never ran out"
    )
    return Remedy(
        "empty_cache", "torch.cuda.empty_cache() in the loop", says, falls, "looks", "torch's allocator"
    )


def _source(found: Signals) -> str:
    return found.gpu.source if found.gpu else "host clock"


_RULES = (_update_interval, _workers, _prefetch, _batch, _empty_cache, _environments, _kernels, _pinning)
