"""One arm's trial: its settings in the command, run behind the guard on its device, and measured."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stoker.errors import FolderError
from stoker.model.exit import EndedBy
from stoker.model.failure import FailureClass
from stoker.model.run import Run
from stoker.outside.gpu.seam import Gpus
from stoker.outside.gpu.visible import visible_gpus
from stoker.store.reading import load
from stoker.trials.ab.answer import Turn
from stoker.trials.ab.enough import Enough
from stoker.trials.ab.measure import Arm, ArmFailure, ArmMeasure
from stoker.trials.ab.measuring import log_tail, measured, short_by_itself
from stoker.trials.ab.plan import Plan
from stoker.trials.ab.seeds import with_seed
from stoker.trials.ab.session import Interrupted
from stoker.trials.guard.mode import GuardMode
from stoker.trials.knobs import Channel, Prepared, Setting, liveness, parse_settings, prepare
from stoker.trials.trial import TrialResult, TrialSpec, run_trial

COPIES = "copies"
"""Below the session's folder: changed copies of the user's files. A trial's own folder is made, and perhaps
made again, by the trial."""
ROOM_BYTES = 10_000_000
"""What the recording of a long trial takes."""
GO_ON = "make room, then the same again; stoker ab --resume goes on with what was measured"
FENCED = (
    "the write guard (fence) may have refused it: only Python's own writes are caught by that one; "
    "--guard redirect lets the others through to your files"
)
HIDDEN_SHOWN = 3
_REFUSED = "Permission denied"
RESUMED = "it took up an earlier training: it did not begin at step 0"


@dataclass(slots=True)
class ArmRunner:
    """Runs the trials of a session, each in a folder of its own below it."""

    plan: Plan
    folder: Path
    gpus: Gpus
    guard: GuardMode = GuardMode.AUTO
    """One that was tried, and agreed to where it lets something through."""
    locks: tuple[int, ...] = ()
    """Of the devices of both arms, held by the caller from before the first trial to after the last."""
    until_s: float | None = None
    """By the monotonic clock: a trial that goes on then is ended."""
    _latest: dict[Arm, Path] = field(default_factory=dict)

    def __call__(self, turn: Turn) -> ArmMeasure:
        folder = self._unused(turn)
        _check_room(self.folder)
        settings = self._settings(turn.arm)
        prepared = self._prepared(turn, settings, self.folder / COPIES / folder.name)
        enough = Enough(folder, self.plan.windows, self.plan.start_max_s)
        began_s = time.monotonic()
        spec = self._spec(prepared, settings, folder, enough)
        try:
            result = run_trial(spec, gpus=self.gpus, locks=self.locks)
        except FolderError as error:
            error.hint = GO_ON
            raise
        if result.exit.ended_by is EndedBy.USER:
            raise Interrupted
        blank = _blank(turn, result, time.monotonic() - began_s)
        gave_up = enough.gave_up or _never_trained(result)
        if gave_up or result.failure is not None:
            failure = _failure(result, gave_up, self.guard)
            return replace(blank, failure=failure, remark=failure.text)
        return self._measured(blank, result, settings)

    def _settings(self, arm: Arm) -> tuple[Setting, ...]:
        planned = self.plan.arm(arm)
        return parse_settings(planned.settings, planned.command)

    def _prepared(self, turn: Turn, settings: Sequence[Setting], copies: Path) -> Prepared:
        """Also without settings, so that both arms tell the facts they are compared by."""
        command = self.plan.arm(turn.arm).command
        if turn.seed is not None:
            command = with_seed(command, turn.seed, self.plan.seed_flag)
        return prepare(settings, command, os.environ, copies)

    def _spec(
        self, prepared: Prepared, settings: Sequence[Setting], folder: Path, enough: Enough
    ) -> TrialSpec:
        plan = self.plan
        return TrialSpec(
            command=prepared.command,
            env=prepared.env,
            folder=folder,
            for_s=plan.trial_max_s,
            until_s=self.until_s,
            devices=visible_gpus(self.gpus, prepared.env),
            guard=self.guard,
            share=plan.share,
            preflight=plan.preflight,
            cwd=Path(plan.cwd),
            named=plan.named,
            total=plan.total,
            settings=tuple(setting.text for setting in settings),
            enough=enough,
        )

    def _measured(self, blank: ArmMeasure, result: TrialResult, settings: Sequence[Setting]) -> ArmMeasure:
        plan, run = self.plan, load(result.folder)
        found = measured(blank, run, result.log, plan.windows, plan.metric, plan.share)
        dead, doubtful, partly = self._effects(blank.arm, settings, run)
        found = replace(
            found,
            dead=dead,
            doubtful=doubtful,
            notes=(*found.notes, *partly),
            invalid=RESUMED if result.resumed else found.invalid,
        )
        self._latest[blank.arm] = result.folder
        return short_by_itself(found, result.exit.ended_by is EndedBy.ITSELF)

    def _effects(
        self, arm: Arm, settings: Sequence[Setting], run: Run
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Settings the run proves to be without effect, those it shows no sign of, and what is worth knowing
        of the others."""
        other = Arm.B if arm is Arm.A else Arm.A
        latest = self._latest.get(other)
        beside = load(latest) if latest is not None and settings else None
        common = {setting.text for setting in self._settings(other)}
        dead, doubtful, partly = [], [], []
        for setting in settings:
            found = liveness(setting, run, None if setting.text in common else beside)
            if found.live is False:
                dead.append(f"{setting.text}: {found.reason or found.seen}")
            elif found.live is None and beside is not None:
                doubtful.append(f"{arm}, {setting.text}: {found.reason}")
            elif found.live and found.reason:
                partly.append(f"{arm}, {setting.text}: {found.seen}; {found.reason}")
        return tuple(dead), tuple(doubtful), tuple(partly)

    def _unused(self, turn: Turn) -> Path:
        """A killed sitting may have left one of this name: it is not looked at again."""
        stem = f"pair{turn.pair}-{turn.arm}-{turn.attempt}"
        for number in range(1, 1000):
            folder = self.folder / (stem if number == 1 else f"{stem}-again{number}")
            if not folder.exists():
                return folder
        raise FolderError("too many trials in this folder", seen=str(self.folder))


def devices_of(plan: Plan, gpus: Gpus) -> tuple[str, ...]:
    """UUIDs of all GPUs either arm could use, which a comparison keeps for itself from beginning to end."""
    found: dict[str, None] = {}
    for arm in Arm:
        settings = parse_settings(plan.arm(arm).settings, plan.arm(arm).command)
        own = {one.name: one.value for one in settings if one.knob.channel is Channel.ENVIRONMENT}
        found |= dict.fromkeys(visible_gpus(gpus, {**os.environ, **own}))
    return tuple(found)


def _check_room(folder: Path) -> None:
    """Where the disk is full a training tells nothing of itself, and would seem to stand still."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < ROOM_BYTES:
        raise FolderError(
            "the disk is full",
            seen=f"{free_bytes / 1e6:.1f} MB are left where trials are recorded, {folder}",
            hint=GO_ON,
        )


def _blank(turn: Turn, result: TrialResult, took_s: float) -> ArmMeasure:
    return ArmMeasure(
        arm=turn.arm,
        pair=turn.pair,
        order=turn.order,
        attempt=turn.attempt,
        seed=turn.seed,
        folder=result.folder.name,
        took_s=took_s,
        notes=(*result.notes, *_hidden(result.hidden)),
    )


def _hidden(paths: Sequence[Path]) -> list[str]:
    """A script may leave a checkpoint for every epoch: some are named."""
    named = ", ".join(str(path) for path in paths[:HIDDEN_SHOWN])
    more = f" and {len(paths) - HIDDEN_SHOWN} more" if len(paths) > HIDDEN_SHOWN else ""
    return [f"hidden from trials, as left by earlier runs: {named}{more}"] if paths else []


def _never_trained(result: TrialResult) -> str:
    """Why there is nothing to measure; empty where there is."""
    if result.failure is not None or result.exit.ended_by is not EndedBy.ITSELF:
        return ""
    return "" if load(result.folder).trainers else "the command ended by itself, no training step was seen"


def _failure(result: TrialResult, gave_up: str, guard: GuardMode) -> ArmFailure:
    tail = log_tail(result.log)
    if result.failure is None:
        return ArmFailure("no-tick", gave_up, "compare a command that trains", tail)
    if result.failure.kind is FailureClass.DISK_FULL:
        raise FolderError(
            "the disk was full in a trial",
            seen=result.failure.evidence,
            hint=GO_ON,
        )
    found = result.failure
    action = "" if found.kind is FailureClass.USER_ERROR else found.action  # the page has better words
    if guard is GuardMode.FENCE and any(_REFUSED in line for line in (found.evidence, *tail)):
        action = FENCED
    return ArmFailure(found.kind.value, found.evidence, action, tail)
