"""The seam to knobs and trials: how settings are read and applied, and how one arm is run.

Everything an A/B uses of `stoker.trials.knobs` and `stoker.trials.trial` goes through this file. Until those
stand beside it, settings are placeholders, flags and variables, and a trial is the command, watched as
`stoker run` watches it, with its output in a log.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stoker import __version__
from stoker.diagnose.failure import combine
from stoker.errors import FolderError, UsageError
from stoker.launch import failure, injection, tree
from stoker.launch.child import become_subreaper, start
from stoker.launch.watcher import start_watcher
from stoker.model.exit import EndedBy
from stoker.model.run import RunInfo
from stoker.store.folder import write_info
from stoker.store.reading import load
from stoker.trials.ab.answer import Turn
from stoker.trials.ab.enough import Enough
from stoker.trials.ab.measure import Arm, ArmFailure, ArmMeasure
from stoker.trials.ab.measuring import log_tail, measured, short_by_itself
from stoker.trials.ab.plan import Plan
from stoker.trials.ab.seeds import with_seed
from stoker.trials.ab.session import Interrupted

LOG = "log.txt"
GRACE_S = 5.0
_MARK = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class Applied:
    """A command with its settings in it."""

    command: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str
    channel: str
    kind: str


def parse_settings(text: str, command: Sequence[str]) -> tuple[Setting, ...]:
    """To be `stoker.trials.knobs.parse_settings`."""
    return tuple(_setting(part.strip(), command) for part in text.split(",") if part.strip())


def _setting(text: str, command: Sequence[str]) -> Setting:
    name, equals, value = text.removeprefix("flag:").removeprefix("env:").partition("=")
    marks = {mark for word in command for mark in _MARK.findall(word)} - {"seed"}
    if text.startswith(("-", "flag:-")):
        return Setting(name, value, "flag", _kind(name))
    if text.startswith("env:") and equals:
        return Setting(name, value, "env", _kind(name))
    if name in marks and equals:
        return Setting(name, value, "placeholder", _kind(name))
    known = [f"{{{mark}}}" for mark in sorted(marks)] + [word for word in command if word.startswith("--")]
    raise UsageError(
        f"there is no knob called {name!r}",
        seen=f"known in this command: {', '.join(known) or 'none'}",
        hint=f"put {{{name}}} into the command, or set a flag of it: --a=--{name}=…",
    )


def _kind(name: str) -> str:
    last = name.lstrip("-").replace("-", "_").lower()
    return "exact" if last in ("num_workers", "workers", "prefetch_factor", "pin_memory") else "dynamics"


def kind_of(settings: Sequence[Setting]) -> str:
    """The strongest among them."""
    kinds = [setting.kind for setting in settings]
    return next((kind for kind in ("dynamics", "numeric") if kind in kinds), "exact")


def placeholders_of(settings: Sequence[Setting]) -> set[str]:
    """Names whose place is in the command."""
    return {setting.name for setting in settings if setting.channel == "placeholder"}


def apply(
    settings: Sequence[Setting], command: Sequence[str], env: Mapping[str, str], folder: Path
) -> Applied:
    """To be `stoker.trials.knobs.prepare`, which also writes changed copies of files into the folder."""
    words, variables = list(command), dict(env)
    for setting in settings:
        if setting.channel == "placeholder":
            words = [word.replace(f"{{{setting.name}}}", setting.value) for word in words]
        elif setting.channel == "env":
            variables[setting.name] = setting.value
        else:
            words = _with_flag(words, setting)
    return Applied(tuple(words), variables)


def _with_flag(words: list[str], setting: Setting) -> list[str]:
    if setting.name in words and setting.value:
        at = words.index(setting.name) + 1
        return [*words[:at], setting.value, *words[at + 1 :]]
    joined = [word for word in words if word.startswith(f"{setting.name}=")]
    if joined:
        return [f"{setting.name}={setting.value}" if word in joined else word for word in words]
    return [*words, setting.name, *([setting.value] if setting.value else [])]


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """What is left of a trial: its folder is a run's."""

    ended_by: EndedBy
    failure: ArmFailure | None
    interrupted: bool
    notes: tuple[str, ...] = ()


def run_trial(applied: Applied, folder: Path, plan: Plan, enough: Callable[[], bool]) -> TrialEnd:
    """To be `stoker.trials.trial.run_trial`, with its write guard, locks and failure classes. `enough` is
    asked every second and ends the trial."""
    info = _begun(folder, applied.command, plan.total)
    oom_before = failure.oom_kills()
    write_info(folder, info)
    become_subreaper()
    env = injection.environment(applied.env, folder, info.id, plan.named)
    with _output_to(folder / LOG):
        child = start(applied.command, env)
    watcher = start_watcher(folder, info.id, child.identity)
    done: list[bool] = []

    def beat() -> None:
        if not done and enough():
            done.append(True)
            tree.end(child.members, grace_s=GRACE_S)

    exit = child.wait(limit_s=plan.trial_max_s, grace_s=GRACE_S, on_beat=beat)
    watcher.stop()
    verdict = failure.classify(exit, oom_before=oom_before, oom_after=failure.oom_kills())
    found = combine(verdict, load(folder).processes)
    ended_by = EndedBy.TIME_LIMIT if done else exit.ended_by
    info = replace(
        info,
        ended_s=time.perf_counter(),
        exit_code=exit.code,
        exit_signal=exit.signal,
        ended_by=ended_by.value,
        failure=None if done else found,
    )
    write_info(folder, info)
    failed = None
    if found is not None and not done and ended_by is not EndedBy.USER:
        what = f"{found.exception}: {found.message}" if found.exception else found.text
        failed = ArmFailure(found.kind, what, found.hint, log_tail(folder / LOG))
    return TrialEnd(ended_by, failed, ended_by is EndedBy.USER)


def _begun(folder: Path, command: Sequence[str], total: str | None) -> RunInfo:
    return RunInfo(
        id=folder.name,
        command=tuple(command),
        cwd=os.getcwd(),
        started_wall=time.time(),
        started_s=time.perf_counter(),
        total=total,
        stoker=__version__,
        stoker_pid=os.getpid(),
    )


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """For the moment of the start: the child inherits descriptors 0, 1 and 2."""
    kept = [os.dup(number) for number in range(3)]
    opened = [os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)]
    try:
        for target, source in ((0, opened[0]), (1, opened[1]), (2, opened[1])):
            os.dup2(source, target)
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
        for descriptor in (*kept, *opened):
            os.close(descriptor)


def dead_settings(settings: Sequence[Setting], folder: Path, other: Path | None) -> tuple[str, ...]:
    """To be `stoker.trials.knobs.liveness` of each setting: those the run shows to be without effect, as
    `num_workers=8 has no effect in this script (seen: 2 workers)`."""
    return ()


@dataclass(slots=True)
class ArmRunner:
    """Runs the trials of a session, each in a folder of its own below it."""

    plan: Plan
    folder: Path
    _latest: dict[Arm, Path] = field(default_factory=dict)

    def __call__(self, turn: Turn) -> ArmMeasure:
        plan, arm = self.plan, self.plan.arm(turn.arm)
        folder = self._made(turn)
        settings = parse_settings(arm.settings, arm.command)
        applied = apply(settings, self._seeded(arm.command, turn.seed), os.environ, folder)
        began_s = time.monotonic()
        enough = Enough(folder, plan.windows, plan.start_max_s, began_s, time.monotonic)
        ended = run_trial(applied, folder, plan, enough)
        if ended.interrupted:
            raise Interrupted
        blank = ArmMeasure(
            arm=turn.arm,
            pair=turn.pair,
            order=turn.order,
            attempt=turn.attempt,
            seed=turn.seed,
            folder=folder.name,
            took_s=time.monotonic() - began_s,
            failure=ended.failure,
            remark=enough.gave_up,
            notes=ended.notes,
        )
        if ended.failure is not None or enough.gave_up:
            return _given_up(blank, folder)
        found = measured(blank, load(folder), folder / LOG, plan.windows, plan.metric, plan.share)
        other = self._latest.get(Arm.B if turn.arm is Arm.A else Arm.A)
        self._latest[turn.arm] = folder
        found = replace(found, dead=dead_settings(settings, folder, other))
        return short_by_itself(found, ended.ended_by is EndedBy.ITSELF)

    def _seeded(self, command: Sequence[str], seed: int | None) -> tuple[str, ...]:
        return tuple(command) if seed is None else with_seed(command, seed, self.plan.seed_flag)

    def _made(self, turn: Turn) -> Path:
        """A killed sitting may have left one of this name: it is not looked at again."""
        stem = f"pair{turn.pair}-{turn.arm}-{turn.attempt}"
        for number in range(1, 1000):
            folder = self.folder / (stem if number == 1 else f"{stem}-again{number}")
            try:
                (folder / "inside").mkdir(parents=True)
                (folder / "outside").mkdir()
                return folder
            except FileExistsError:
                continue
            except OSError as error:
                raise FolderError(
                    f"no folder can be made for this trial: {error.strerror}",
                    seen=str(folder),
                    hint="make room, then: stoker ab --resume (what was measured before is kept)",
                ) from error
        raise FolderError("too many trials in this folder", seen=str(self.folder))


def _given_up(blank: ArmMeasure, folder: Path) -> ArmMeasure:
    if blank.failure is None:
        hung = ArmFailure("no-tick", blank.remark, "a command that trains", log_tail(folder / LOG))
        return replace(blank, failure=hung)
    return replace(blank, remark=blank.failure.text)
