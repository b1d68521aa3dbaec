"""SK301: environments are stepped one after another on the training thread."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    COMPUTES_LOOKS,
    ELSEWHERE_CORES,
    MOST_OF_ENV_FRAC,
    QUICK_STEP_MS,
    SYNCS_PER_TICK,
)
from stoker.diagnose.own_steps import OwnMethod
from stoker.diagnose.places import LineShare
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK301", "environment stepped on the training thread"
_FIXES = (
    Fix(
        "environments in processes of their own (with Stable-Baselines3: SubprocVecEnv)",
        "envs = gym.vector.SyncVectorEnv([make] * 8)",
        "envs = gym.vector.AsyncVectorEnv([make] * 8)",
    ),
    Fix("a native vector environment (EnvPool), or one on the GPU, where there is one for your task"),
    Fix("make the step itself cheaper: its hottest line is named above"),
)


def find(found: Signals) -> Finding | None:
    if not serial(found):
        return None
    if found.own_step is not None:
        return _own(found, found.own_step)
    line = found.top_line("env")
    lost = found.lost("env")
    quick = 0 < (_step_ms(found) or 0.0) < QUICK_STEP_MS
    but = "; its steps are so quick that processes would cost more than they save" if quick else ""
    return finding(
        CODE,
        NAME,
        f"the training thread steps the environment itself and computes nothing meanwhile{but}",
        lost,
        found.lost_of,
        [
            share(
                "of the window the GPU idles for it" if found.gpu else "of the window is in the environment",
                lost,
                found.gpu.source if found.gpu else "host clock",
            ),
            number("{} env steps/s", found.env_steps_per_s, "1/s", "host clock"),
            number("one takes {} ms", _step_ms(found), "ms", "host clock"),
            number("environments to a step: {}", found.envs_per_call, "envs", "host clock"),
            number("{} cores are used by all of the run", found.cores_used, "cores", "host watcher"),
        ],
        "time env.step alone in a loop: as many steps/s as here means that it is the limit",
        _fixes(found, line, quick),
        line.place if line else None,
    )


def _fixes(found: Signals, line: LineShare | None, quick: bool) -> tuple[Fix, ...]:
    """One line of Python that is most of the step is mended first."""
    fixes = _FIXES[1:] if quick else _FIXES
    if line is None or (line.computes or 0) < COMPUTES_LOOKS:
        return fixes
    most = line.pct >= MOST_OF_ENV_FRAC * found.host_pct["env"]
    return (fixes[-1], *fixes[:-1]) if most else fixes


def _step_ms(found: Signals) -> float | None:
    """Of one environment."""
    rate = found.env_steps_per_s
    return 10 * found.host_pct["env"] / rate if rate else None


def _own(found: Signals, step: OwnMethod) -> Finding | None:
    lost = found.own_part_lost(step)
    return finding(
        CODE,
        NAME,
        f"the training thread is in {step.name}() of your own, a simulator by its name; the model rests "
        "meanwhile",
        lost,
        found.lost_of,
        [
            share(
                f"of the training thread's own code is under a method called {step.name}", step.frac, "looks"
            ),
            share("of the window goes to it", lost, "looks"),
            number("{} cores are used by all of the run", found.cores_used, "cores", "host watcher"),
        ],
        f"stoker run --env module:Class.{step.name} -- … times it as an environment",
        _FIXES,
        step.site,
    )


def simulated(found: Signals) -> list[LineShare]:
    """Lines of a step of one's own that is this cause: they are told with it."""
    return found.own_part_lines(found.own_step) if found.own_step is not None and find(found) else []


def simulated_frac(found: Signals) -> float:
    """Of the window, lost in it."""
    return found.own_part_lost(found.own_step) if found.own_step is not None and find(found) else 0.0


def simulated_launching(found: Signals) -> float:
    """Of the window: what of it was inferred to be launching, where it computes on the host. (One on the GPU
    launches.)"""
    step = found.own_step
    if found.gpu is None or found.gpu.own_launches or step is None or not simulated_frac(found):
        return 0.0
    return found.own_launching() * found.own_part(step) if _is_on_the_host(found, step) else 0.0


def _is_on_the_host(found: Signals, step: OwnMethod) -> bool:
    """In most ticks something new is copied to the GPU, or it reads from there itself."""
    often = [line for line in found.blocking if line.per_tick >= SYNCS_PER_TICK]
    return any(line.phase == "h2d" or line.place.leaf in step.lines for line in often)


def serial(found: Signals) -> bool:
    """Nobody else of the run steps environments or computes much."""
    return not found.env_processes and (found.elsewhere_cores or 0.0) < ELSEWHERE_CORES


CAUSE = Cause(CODE, NAME, find)
