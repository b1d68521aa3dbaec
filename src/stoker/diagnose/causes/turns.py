"""SK303: rollout and update take turns: environments wait for the learner, then it for them."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.serial_env import serial
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.places import LineShare
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK303", "rollout and update take turns"
_FIXES = (
    Fix(
        "step the environments while the update runs; actions are then one step old",
        "obs = envs.step(actions)[0]\nupdate(batch)",
        "envs.step_async(actions)\nupdate(batch)\nobs = envs.step_wait()[0]",
    ),
    Fix("actors in processes of their own that fill a buffer, and a learner that reads from it"),
    Fix("more environments in more processes, where cores are free: a shorter rollout"),
)


_WORK_FIXES = (
    Fix(
        "ask for the next before the update, so that they compute meanwhile",
        "batch = pool.map(make, jobs)\nupdate(batch)",
        "coming = pool.map_async(make, jobs)\nupdate(batch)\nbatch = coming.get()",
    ),
    Fix("more processes, where cores are free and they compute all the time already"),
)


def find(found: Signals) -> Finding | None:
    told = [one for one in (_environments(found), _own_processes(found)) if one is not None]
    return max(told, key=lambda one: one.recoverable_frac or 0.0, default=None)


def waited_in(found: Signals) -> list[LineShare]:
    """The lines it is said of."""
    return found.waits_for_own_processes() if _own_processes(found) is not None else []


def waiting_launching(found: Signals) -> float:
    """Of the window: what of it was inferred to be launching. Nothing is launched while it waits."""
    return found.own_launching() * min(1.0, sum(map(found.line_part, waited_in(found))))


def _environments(found: Signals) -> Finding | None:
    if found.env_steps_per_s is None or serial(found):
        return None
    waiting = found.lost("env")
    line = found.top_line("env")
    return finding(
        CODE,
        NAME,
        "the environments run in processes of their own, and the learner does nothing until they are done",
        min(waiting, 1 - waiting),
        found.lost_of,
        [
            share(
                "of the window the GPU idles for the environments"
                if found.gpu
                else "of the window is waiting for the environments",
                waiting,
                found.gpu.source if found.gpu else "host clock",
            ),
            number("{} env steps/s", found.env_steps_per_s, "1/s", "host clock"),
            number("{} other processes step environments", found.env_processes or None, "processes", "looks"),
            number("{} cores are used beside the learner", found.elsewhere_cores, "cores", "host watcher"),
        ],
        "time the rollout alone and the update alone: side by side, the longer of the two would be left",
        _FIXES,
        line.place if line else None,
    )


def _own_processes(found: Signals) -> Finding | None:
    """Behind a pipe or a queue of the user's own."""
    lines = found.waits_for_own_processes()
    waiting = sum(map(found.line_lost, lines))
    if not lines:
        return None
    return finding(
        CODE,
        NAME if found.simulates else "waits for processes of its own",
        "the learner waits for other processes of the run, which compute, and does nothing meanwhile",
        min(waiting, 1 - waiting),
        found.lost_of,
        [
            share("of the training thread's time is in this line", lines[0].pct / 100, "looks"),
            share("of the looks at it found it waiting for another process", lines[0].waits_frac, "looks"),
            number("{} cores are used beside the learner", found.elsewhere_cores, "cores", "host watcher"),
        ],
        "time the processes' part alone and the update alone: side by side, the longer would be left",
        _FIXES if found.simulates else _WORK_FIXES,
        lines[0].place,
    )


CAUSE = Cause(CODE, NAME, find)
