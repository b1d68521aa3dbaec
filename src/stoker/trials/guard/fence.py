"""The kernel's refusal (Landlock) of every write outside the trial's own folders, for all its processes.

What Python writes has been redirected before it gets here; what is left is a C++ writer or another program,
and it fails rather than touch the user's files. Modes, owners and times of files are not covered by Landlock.
"""

from __future__ import annotations

from stoker.trials.guard import kernel
from stoker.trials.guard.mounts import NOT_FILES
from stoker.trials.guard.plan import GuardPlan


def put_up(plan: GuardPlan) -> None:
    kernel.allow_writes_only_below([*NOT_FILES, plan.shadow, *plan.through])
