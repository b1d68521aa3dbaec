"""The root-cause questions, in their order, answered from data or with *not in these files*.

Times per sample are compared only between cases of the same setting: the learner does the same number of
updates there, so what differs between robots is mostly the simulation, and between methods the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.diagnose.cases import Case
from stoker.diagnose.missed.idle_per_sample import busy_and_idle_ms
from stoker.diagnose.trial import Trial

NOT_HERE = "not in these files"
_EXTRA_BY_METHOD = {
    "amp": "a discriminator",
    "add": "a discriminator",
    "ase": "a discriminator and an encoder",
}
_VARIANTS = ("_ppo", "_awr")


@dataclass(frozen=True, slots=True)
class Answer:
    question: str
    answer: str
    from_data: bool


def checklist_of(case: Case, cases: Sequence[Case]) -> tuple[Answer, ...]:
    asked = (
        ("env or data cost", _env_cost(case, cases)),
        ("algorithm cost", _algorithm_cost(case, cases)),
        ("agent strength", _agent_strength(case)),
        ("multi-GPU sync", _sync(case.chosen)),
        ("stage", _stage(case)),
    )
    return tuple(Answer(question, answer or NOT_HERE, bool(answer)) for question, answer in asked)


def _env_cost(case: Case, cases: Sequence[Case]) -> str:
    facts = [
        f"{steps.data_share_frac:.1%} of the logged step time is waiting for data"
        for steps in case.chosen.steps
        if steps.data_share_frac is not None
    ]
    if ratio := _slower_than(case, [other for other in cases if other.method == case.method]):
        facts.append(_ratio_words(ratio, "method"))
    if parts := busy_and_idle_ms(case.chosen):
        facts.append(f"per 1000 samples the GPU is busy {parts[0]:.0f} ms and idle {parts[1]:.0f} ms")
    envs, memory = case.chosen.setting.num_envs, case.chosen.peak_mem_mib
    if envs and memory:
        facts.append(f"{memory / envs:.1f} MiB per env")
    return "; ".join(facts)


def _algorithm_cost(case: Case, cases: Sequence[Case]) -> str:
    facts = [
        f"the loss takes {steps.stage_s['time_loss']:.4f} s of a step"
        for steps in case.chosen.steps
        if "time_loss" in steps.stage_s
    ]
    for iterations in case.chosen.iterations.values():
        if iterations.extra_networks:
            facts.append(f"its log has losses of {' and '.join(iterations.extra_networks)}")
            break
    robot = _robot(case)
    peers = [other for other in cases if _robot(other) == robot and other.method != case.method]
    if ratio := _slower_than(case, peers):
        extra = _EXTRA_BY_METHOD.get(case.method or "")
        known = f"; by its name {case.method} has {extra}" if extra else ""
        facts.append(_ratio_words(ratio, "robot") + known)
    return "; ".join(facts)


def _ratio_words(ratio: tuple[float, str], shared: str) -> str:
    if ratio[0] < 1:
        return (
            f"the fastest of its {shared} at this setting; next is {ratio[1]} at {1 / ratio[0]:.2f}x its time"
        )
    return f"{ratio[0]:.2f}x the time per sample of {ratio[1]}, same {shared} and setting (inferred)"


def _robot(case: Case) -> str | None:
    """What remains of the case's name without its method."""
    if not case.method or not case.name.startswith(case.method + "_"):
        return None
    robot = case.name[len(case.method) + 1 :]
    for variant in _VARIANTS:
        robot = robot.removesuffix(variant)
    return robot


def _slower_than(case: Case, peers: Sequence[Case]) -> tuple[float, str] | None:
    """Against the fastest of the peers with the same setting; None if there is no such peer."""
    own, label = case.chosen.samples_per_s, case.chosen.setting.label()
    fair = [
        (peer.chosen.samples_per_s, peer.name)
        for peer in peers
        if peer is not case and peer.chosen.samples_per_s and peer.chosen.setting.label() == label
    ]
    if not own or not fair or case.chosen.setting.num_envs is None:
        return None
    speed, name = max(fair)
    return (speed / own, name)


def _agent_strength(case: Case) -> str:
    chosen = case.chosen
    facts = [
        f"forward {steps.stage_s['time_forward']:.4f} s, backward {steps.stage_s['time_backward']:.4f} s"
        for steps in chosen.steps
        if {"time_forward", "time_backward"} <= steps.stage_s.keys()
    ]
    parameters = _parameters(chosen)
    others = {_parameters(trial): trial.setting.variant for trial in case.trials if _parameters(trial)}
    if parameters:
        facts.append(f"{parameters:,} parameters".replace(",", " "))
        facts += [
            f"{count:,} in {name}".replace(",", " ")
            for count, name in others.items()
            if count and count != parameters
        ]
    if "update_epochs" in chosen.known:
        facts.append(f"update_epochs {chosen.known['update_epochs']:g}")
    if other := _other_variant(case):
        facts.append(other)
    return "; ".join(facts)


def _parameters(trial: Trial) -> int | None:
    return next((facts.parameters for facts in trial.iterations.values() if facts.parameters), None)


def _other_variant(case: Case) -> str:
    """The same envs with another agent: the price of the agent, measured."""
    own = case.chosen
    for trial in case.trials:
        same_envs = trial.setting.num_envs is not None and trial.setting.num_envs == own.setting.num_envs
        if same_envs and trial.setting.variant != own.setting.variant and trial.root == own.root:
            ours, theirs = (
                own.own_samples_per_s or own.samples_per_s,
                trial.own_samples_per_s or trial.samples_per_s,
            )
            if ours and theirs:
                return f"{theirs / ours:.2f}x the samples/s with {trial.setting.label()}"
    return ""


def _sync(trial: Trial) -> str:
    for steps in trial.steps:
        if steps.unattributed_s is not None:
            return f"{steps.unattributed_s:.4f} s of a step lie in no stage timer, where a sync would be"
    utils = [util for util in trial.util_per_gpu_pct if util is not None]
    if len(utils) < 2:
        return ""
    shown = " / ".join(f"{util:.1f}" for util in utils)
    return f"utilisation per GPU {shown} %; what a single GPU would do is {NOT_HERE}"


def _stage(case: Case) -> str:
    chosen = case.chosen
    parts = [] if chosen.stage.value == "unknown" else [f"figures from {chosen.stage.value}"]
    share = chosen.evaluation_share_frac
    if share is not None:
        parts.append(f"about {share:.0%} of the trainer's time is evaluation and warm-up")
    elif chosen.stage.value == "probe":
        parts.append("it contains evaluation, how much is not in these files")
    return "; ".join(parts)
