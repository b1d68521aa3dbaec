"""SK504: the training thread is ready to run and has no core.

The scheduler counts that itself. It makes everything the thread does slower alike, so no line of the code is
to blame: others compute on the same cores, the run's own processes and threads do, or a quota is used up.
"""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.cores_exhausted import starved
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import CORE_WAIT_FRAC, FREE_CORES_PCT, OWN_CORES_FRAC, QUOTA_PART
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK504", "no core for the training thread"
_FEWER = Fix(
    "fewer threads and processes than cores: OMP_NUM_THREADS=1 for every process beside the training "
    "(workers, environments, ranks), fewer workers"
)
_OTHERS = (
    Fix("other jobs on the machine: wait for them, or move one of the two"),
    Fix("cores of its own: taskset, cpuset, Slurm's --cpus-per-task, a container's --cpuset-cpus"),
)
_BOUND = (
    Fix("let it use the free ones: taskset, numactl, os.sched_setaffinity, GOMP_CPU_AFFINITY, KMP_AFFINITY"),
)
_QUOTA = (Fix("a larger CPU quota: a container's --cpus, Kubernetes' limits.cpu"), _FEWER)
_OWN = (_FEWER, Fix("more cores: cpuset, --cpus, Slurm's --cpus-per-task"))


def find(found: Signals) -> Finding | None:
    lost = found.lost_of_waiting(found.core_wait_frac or 0.0)
    if lost < CORE_WAIT_FRAC or starved(found):  # that is SK103's, which has the loader to speak of
        return None
    who, fixes = _held_by(found)
    evidence = [
        share(
            "of the window the training thread was ready and had no core", found.core_wait_frac, "schedstat"
        ),
        share("of the time a CPU quota was used up", found.quota_frac or None, "cgroup"),
        share("of the allowed cores' time is in use", found.cores_busy_frac, "host watcher"),
        number("{} cores are used by this run", found.cores_used, "cores", "host watcher"),
        number("it may use {}", found.cores_allowed, "cores", "host watcher"),
    ]
    return finding(
        CODE,
        NAME,
        f"the training thread waits for a core: {who}",
        lost,
        found.lost_of,
        evidence,
        "the same run beside nobody, or with more cores, is faster",
        fixes,
        in_code=False,
    )


def _held_by(found: Signals) -> tuple[str, tuple[Fix, ...]]:
    if (found.quota_frac or 0.0) >= QUOTA_PART * (found.core_wait_frac or 0.0):
        return "the CPU quota is used up", _QUOTA
    used, allowed = found.cores_used, found.cores_allowed
    if used is not None and allowed is not None and used >= OWN_CORES_FRAC * allowed:
        return "this run's own processes and threads are on them", _OWN
    if found.allowed_cpu_pct is not None and found.allowed_cpu_pct < FREE_CORES_PCT:
        return "it is bound to a few, and others are free", _BOUND
    return "others compute on them", _OTHERS


CAUSE = Cause(CODE, NAME, find)
