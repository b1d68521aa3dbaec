"""One start of a trial's command: guard up, guardian beside it, watched, ended with its tree, guard down.

Its output goes to `output.log` in the trial's folder, not to the terminal.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stoker.diagnose.failure import combine
from stoker.errors import FolderError, GuardFailed, StokerError
from stoker.launch import failure as exits
from stoker.launch import injection, tree
from stoker.launch.beginning import begun, ended
from stoker.launch.brief import run_briefly
from stoker.launch.guardian import start_guardian
from stoker.launch.watched import start_watched
from stoker.model.exit import EndedBy, Exit
from stoker.model.run import Run, RunInfo
from stoker.store import folder as folders
from stoker.store.reading import load
from stoker.trials.conditions import notes_on_conditions
from stoker.trials.failures import classify_failure
from stoker.trials.guard import outputs
from stoker.trials.guard.entry import REFUSED
from stoker.trials.guard.standing import Standing, put_up
from stoker.trials.progress import Progress, tail_of
from stoker.trials.spec import LOG, TrialResult, TrialSpec

LOG_TAIL_BYTES = 200_000
GRACE_S = 5.0
LEFT_OVER_S = 2.0
PREFLIGHT_S = 600.0
_SHORT_TIMEOUTS = {
    # One dead rank must not keep the others for ten minutes.
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "60",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    result: TrialResult
    ticked: bool
    written: tuple[str, ...]
    """The user's names of files it wrote, in the shadow."""
    taken_up: tuple[Path, ...]
    """What an earlier training left and it loaded, surely or likely."""
    last_words: str

    @property
    def saw_an_earlier_run(self) -> bool:
        return bool(self.taken_up) or not self.ticked


@dataclass(frozen=True, slots=True)
class _Watching:
    exit: Exit
    verdict: exits.Failure
    oom_killed: bool
    problems: tuple[str, ...]
    hung: bool


def attempt(spec: TrialSpec, cwd: Path, locks: Sequence[int]) -> Attempt:
    """`locks`: descriptors that are held until nothing of the trial is left, whatever becomes of Stoker."""
    _make_folder(spec.folder)
    info = replace(
        begun(spec.folder, spec.command, total=spec.total),
        id=_unique_id(spec.folder),
        cwd=str(cwd),
        settings=spec.settings,
    )
    folders.write_info(spec.folder, info)
    env = {**_SHORT_TIMEOUTS, **spec.env}
    standing = put_up(spec.guard, spec.command, env, folder=spec.folder, cwd=cwd, hide=spec.hide)
    try:
        guardian = start_guardian(info.id, standing.folders, held=locks)
        try:
            _preflight(spec, standing, cwd)
            seen = _watch(spec, standing, cwd, info.id)
        finally:
            guardian.dismiss()
        written = standing.written()
    finally:
        standing.take_down()
    return _made(spec, info, seen, written)


def _unique_id(folder: Path) -> str:
    """Processes are told apart by it, and another ab has a `trial0`, too."""
    return f"{folder.parent.name}-{folder.name}-{secrets.token_hex(6)}"


def _make_folder(folder: Path) -> None:
    try:
        for part in (folder, folder / "inside", folder / "outside"):
            part.mkdir(parents=True)
    except OSError as error:
        raise FolderError("no folder can be made for a trial", seen=f"{folder}: {error.strerror}") from error


def _at_most_s(spec: TrialSpec, seconds: float) -> float:
    return seconds if spec.until_s is None else min(seconds, max(1.0, spec.until_s - time.monotonic()))


def _preflight(spec: TrialSpec, standing: Standing, cwd: Path) -> None:
    for command in spec.preflight:
        done = run_briefly(
            standing.also(command), standing.env, cwd=cwd, limit_s=_at_most_s(spec, PREFLIGHT_S)
        )
        if done.code != 0:
            last = (done.output.strip().splitlines() or [""])[-1]
            raise StokerError(
                f"a command that has to come first failed: {' '.join(command)}",
                seen=f"exit code {done.code}{f': {last}' if last else ''}"[:300],
                hint="run it by hand",
            )


def _watch(spec: TrialSpec, standing: Standing, cwd: Path, run_id: str) -> _Watching:
    env = injection.environment(standing.env, spec.folder, run_id, spec.named)
    log = os.open(spec.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        watched = start_watched(standing.command, env, spec.folder, run_id, cwd=cwd, output=log)
    finally:
        os.close(log)
    child, progress = watched.child, Progress(spec.folder, spec.folder / LOG)
    enough = spec.enough or (lambda elapsed_s: False)

    def beat() -> None:
        if enough(time.monotonic() - child.started_s):
            child.end_early(EndedBy.TIME_LIMIT)
        elif progress.look():
            child.end_early()

    exit = child.wait(limit_s=_at_most_s(spec, spec.for_s), grace_s=GRACE_S, on_beat=beat)
    try:  # what a command left that ended by itself
        child.not_ended = tree.end(child.members, steps=tree.ALL_STEPS[1:], grace_s=LEFT_OVER_S)
    finally:
        verdict, problems = watched.finish(exit)
    if child.beat_error is not None:
        problems.append(f"the trial was not looked after: {child.beat_error!r}")
    early = exit.ended_by is EndedBy.STOKER
    return _Watching(
        exit,
        verdict,
        (exits.oom_kills() or 0) > (watched.oom_before or 0),
        (*problems, *([f"ended early: {progress.reason}"] if early else [])),
        early and progress.hung,
    )


def _made(spec: TrialSpec, info: RunInfo, seen: _Watching, written: tuple[str, ...]) -> Attempt:
    run = _recorded(spec.folder, ended(info, seen.exit, seen.problems), seen.verdict)
    tail = tail_of(spec.folder / LOG, LOG_TAIL_BYTES)
    if seen.exit.code == REFUSED and "stoker: the write guard failed" in tail:
        raise GuardFailed("the write guard could not be put up", seen=tail.strip().splitlines()[-1])
    resumed = outputs.seen_by_trial(outputs.resumed_from(spec.folder), spec.hide)
    counted = outputs.seen_by_trial(outputs.counted_in(spec.folder), spec.hide)
    failed = classify_failure(tail, seen.exit, run.processes, hung=seen.hung, oom_killed=seen.oom_killed)
    result = TrialResult(
        folder=spec.folder,
        exit=seen.exit,
        failure=failed,
        started=info.started_wall,
        ended=time.time(),
        notes=(*seen.problems, *notes_on_conditions(run), *outputs.unwatched(spec.folder)),
        resumed=bool(resumed),
        hidden=spec.hide,
    )
    taken_up = tuple(dict.fromkeys([*resumed, *counted]))
    return Attempt(result, bool(run.trainers), written, taken_up, _last_words(run, tail))


def _recorded(folder: Path, info: RunInfo, verdict: exits.Failure) -> Run:
    loaded = load(folder)
    info = replace(info, failure=combine(verdict, loaded.processes))
    folders.write_info(folder, info)
    return replace(loaded, info=info)


def _last_words(run: Run, tail: str) -> str:
    raised = [f"{record.raised.type}: {record.raised.message}" for record in run.processes if record.raised]
    return "\n".join([*tail.splitlines()[-20:], *raised])
