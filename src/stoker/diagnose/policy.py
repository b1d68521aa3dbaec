"""What to do, per class and goal. In conflict: stability before throughput before utilisation.

The three goals: `machine` the most work per day from the whole box, `job` this one job done soonest,
`stable` no interruption.
"""

from __future__ import annotations

from enum import StrEnum

from stoker.diagnose.cases import Case
from stoker.diagnose.classes import CaseClass
from stoker.diagnose.missed.loader_supply import is_short
from stoker.diagnose.trial import Trial


class Goal(StrEnum):
    MACHINE = "machine"
    JOB = "job"
    STABLE = "stable"


_ACTIONS: dict[CaseClass, dict[Goal, str]] = {
    CaseClass.VRAM_BOUND: {
        Goal.MACHINE: "keep this setting; nothing else fits on this card",
        Goal.JOB: "do not raise num_envs or the batch; find out what holds the memory before trying more",
        Goal.STABLE: "one rung below the highest setting that ever failed, and a long run to prove it",
    },
    CaseClass.COMPUTE_HEAVY: {
        Goal.MACHINE: "leave it alone; a second job on the same GPU would slow both",
        Goal.JOB: "leave it alone; only less work per sample would make it faster",
        Goal.STABLE: "keep the setting and let it run",
    },
    CaseClass.BALANCED: {
        Goal.MACHINE: "leave it alone unless samples/s can be shown to rise; measure with repeats",
        Goal.JOB: "try more envs or a larger batch, and keep it only if samples/s rises at equal updates",
        Goal.STABLE: "keep the setting and let it run",
    },
    CaseClass.THROUGHPUT_BOUND: {
        Goal.MACHINE: "run two cases side by side, one per GPU, instead of one case on both",
        Goal.JOB: "find what the GPU waits for (simulation, data, sync); judge by samples/s, not utilisation",
        Goal.STABLE: "keep the setting; low utilisation is no danger",
    },
    CaseClass.UNCLASSIFIABLE: {
        Goal.MACHINE: "measure first: GPU utilisation of the training stage is missing",
        Goal.JOB: "measure first: GPU utilisation of the training stage is missing",
        Goal.STABLE: "keep what runs",
    },
}


def actions_of(case: Case) -> dict[Goal, str]:
    """The table's row, bent by what is known of this case."""
    actions = dict(_ACTIONS[case.case_class])
    failed = [trial for trial in case.trials if trial.ok is False]
    if case.chosen.ok is False:
        word = "lower num_envs first, then look at utilisation" if _is_memory(failed) else "make it run first"
        return dict.fromkeys(Goal, word)
    if case.case_class is CaseClass.VRAM_BOUND and (words := _rung_words(case.chosen, failed)):
        actions[Goal.STABLE] = words
    if is_short(case.chosen):
        actions[Goal.MACHINE] = (
            "no second job yet: it would fight for the same loader cores; make samples cheaper"
        )
        actions[Goal.JOB] = "make samples cheaper (smaller images, faster decoding, a cache) or add cores"
    elif case.case_class is CaseClass.THROUGHPUT_BOUND:
        actions[Goal.MACHINE] = _side_by_side(case)
    return actions


def _is_memory(failed: list[Trial]) -> bool:
    return any(trial.failure is not None and "memory" in trial.failure.value for trial in failed)


def _rung_words(chosen: Trial, failed: list[Trial]) -> str:
    """Where the cliff lies, as far as the files know it."""
    rungs = [trial.setting.num_envs for trial in failed if trial.setting.num_envs]
    works = chosen.setting.num_envs
    above = min((rung for rung in rungs if works and rung > works), default=None)
    if works is None or above is None:
        return ""
    return f"runs at e{works}, fails at e{above}: go a rung below e{works}, and prove it with a long run"


def _side_by_side(case: Case) -> str:
    gpus = max(len(case.chosen.util_per_gpu_pct), len(case.chosen.mem_per_gpu_mib))
    if case.judgement.memory_low is False:
        return "its memory leaves no room for a second job on the same card; give each GPU its own case"
    room = "" if case.judgement.memory_low else " (memory unknown: check that it fits)"
    if gpus == 1:
        return f"put a second case on the same GPU{room}"
    return _ACTIONS[CaseClass.THROUGHPUT_BOUND][Goal.MACHINE] + room
