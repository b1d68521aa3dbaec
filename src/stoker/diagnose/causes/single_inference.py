"""SK302: the model is asked for one action at a time."""

from __future__ import annotations

from stoker.diagnose.causes.cause import IN_THE_MODEL, Cause, finding, number, share
from stoker.diagnose.causes.evaluation_stall import evaluated_frac
from stoker.diagnose.causes.signals import BlockingLine, Signals, beside
from stoker.diagnose.causes.thresholds import AROUND_MAX, ENVS_ONE, ONE_ROW_FRAC
from stoker.diagnose.places import LineShare
from stoker.model.finding import Evidence, Finding, Fix

CODE, NAME = "SK302", "one inference per environment"
_FIXES = (
    Fix(
        "one call of the model for all environments",
        "actions = [policy(obs[None])[0] for obs in observations]",
        "actions = policy(torch.stack(observations))",
    ),
    Fix("a vector environment: gymnasium.make_vec(name, num_envs=16)"),
    Fix("a small policy for acting on the CPU, copied from the learner every so often"),
)


def find(found: Signals) -> Finding | None:
    one_env = _one_env(found)
    if not one_env and not _row_by_row(found):
        return None
    each = "environment" if one_env else "row"
    return finding(
        CODE,
        NAME,
        f"the model is called for one {each} at a time: a batch of one costs nearly as much as of 64",
        acting_lost(found),
        found.lost_of if found.gpu else IN_THE_MODEL,
        _acting(found) if found.envs_per_call is not None else _asking(found),
        "time the policy with 1 row and with 64: if both take about as long, batching is free",
        _FIXES,
        found.call_sites.get("infer"),
    )


def _one_env(found: Signals) -> bool:
    return found.envs_per_call is not None and found.envs_per_call <= ENVS_ONE


def _row_by_row(found: Signals) -> bool:
    return (found.one_row_frac or 0.0) >= ONE_ROW_FRAC


def around_the_call(found: Signals) -> list[LineShare]:
    """Lines beside the call that is made row by row, in a function that does no more than ask the model: the
    draw of an action, the way to the CPU. They are run once for each row, too. What takes much longer than
    the model itself is something else: a simulator."""
    site = found.call_sites.get("infer")
    if site is None or site.leaf is None or not (_one_env(found) or _row_by_row(found)):
        return []
    path, _, function = site.leaf
    here = [one for one in found.lines if one.place.leaf and one.place.leaf[::2] == (path, function)]
    if any(one.phase in ("backward", "optim") for one in here):
        return []
    near = [one for one in here if beside(one.place.leaf, site.leaf)]
    waits = found.waits_for_own_processes()
    own = [one for one in near if one.phase == "other" and one not in waits and not found.waits_for_gpu(one)]
    asking = _asking_pct(found)
    if _one_env(found):  # whose every line is run row by row: a long one need not be for the model's sake
        own = [one for one in own if one.pct <= asking]
    return own if sum(one.pct for one in own) <= AROUND_MAX * asking else []


def reads_of_answers(found: Signals) -> list[BlockingLine]:
    """In the line that asks, or beside it: each answer of a tick is fetched by itself."""
    site = found.call_sites.get("infer")
    if site is None or not (_one_env(found) or _row_by_row(found)):
        return []
    reads = [one for one in found.blocking if one.phase == "sync" and one.per_tick >= 2]
    return [one for one in reads if beside(one.place.leaf, site.leaf)]


def _asking_pct(found: Signals) -> float:
    """Of the window, in the model's calls for one row."""
    infer_pct = found.host_pct["infer"]
    if found.envs_per_call is not None:
        return min(found.acting_pct, infer_pct)
    return infer_pct * (found.one_row_frac or 0.0) * (1 - evaluated_frac(found))


def _acting(found: Signals) -> list[Evidence | None]:
    return [
        share("of the training thread's time is acting", found.acting_pct / 100, "host clock"),
        _beside(found),
        number("environments to an env step: {}", found.envs_per_call, "envs", "host clock"),
        number("{} env steps/s", found.env_steps_per_s, "1/s", "host clock"),
        _one_row(found),
    ]


def _asking(found: Signals) -> list[Evidence | None]:
    """Nobody is known to step an environment; a row at a time is a row at a time."""
    infer = found.host_pct["infer"] / 100
    told = share("of the training thread's time is the model without gradients", infer, "host clock")
    return [told, _beside(found), _one_row(found)]


def _beside(found: Signals) -> Evidence | None:
    beside = sum(one.pct for one in around_the_call(found)) / 100
    return share("is in the lines beside the call", beside, "looks") if beside else None


def _one_row(found: Signals) -> Evidence | None:
    return share("of these calls have a single row", found.one_row_frac, "looked at once a second")


def acting_lost(found: Signals) -> float:
    """Acting is a part of `infer`; on a GPU what counts is that the card waits for one small kernel after
    another, or has nothing to do."""
    infer_pct = found.host_pct["infer"]
    if infer_pct <= 0:
        return 0.0
    launching = found.gpu.launching_pct.get("infer", 0.0) / 100 if found.gpu else 0.0
    copies = found.hidden_copies_pct()["infer"] / 100
    lost = max(0.0, found.lost("infer") + launching - copies) * _asking_pct(found) / infer_pct
    waits_pct = found.host_pct["sync"]
    reads_part = min(1.0, sum(one.pct for one in reads_of_answers(found)) / waits_pct) if waits_pct else 0.0
    lost += found.lost("sync") * reads_part if found.gpu else 0.0
    return lost + sum(map(found.line_lost, around_the_call(found)))


def launching_beside(found: Signals) -> float:
    """Of the window, launching in the lines beside the call."""
    return found.own_launching() * min(1.0, sum(map(found.line_part, around_the_call(found))))


CAUSE = Cause(CODE, NAME, find)
