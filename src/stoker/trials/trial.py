"""Run one trial: with its device for itself, behind a guard that works here, from step 0.

Where the trial took up an earlier training, or refused to start because of what one left, it is made again
with those files hidden; where it misses a file that was, with that one shown (`guard/outputs.py` has the
rule).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from stoker.errors import FolderError, GuardFailed, UsageError
from stoker.model.exit import EndedBy
from stoker.outside.gpu.nvml import find_gpus
from stoker.outside.gpu.seam import Gpus
from stoker.trials.attempt import Attempt, attempt
from stoker.trials.device_lock import all_locked
from stoker.trials.guard import outputs
from stoker.trials.guard.coverage import find_coverage
from stoker.trials.guard.mode import GuardMode
from stoker.trials.spec import TrialResult, TrialSpec
from stoker.trials.turn import check_free, look, wait_until_as_before

__all__ = ["TrialResult", "TrialSpec", "run_trial"]

ATTEMPTS = 4
"""The first, and more for a script that sees what an earlier run left, or misses what was hidden."""


def run_trial(spec: TrialSpec, *, gpus: Gpus | None = None, locks: Sequence[int] = ()) -> TrialResult:
    """Blocks until it has ended and the device is free again. `gpus` is for tests. `locks`: of its devices,
    where the caller holds them for more than one trial; without any the trial takes them for itself."""
    if not spec.command:
        raise UsageError("there is no command to try")
    cwd = (spec.cwd or Path.cwd()).resolve()
    spec = replace(spec, cwd=cwd, folder=spec.folder.absolute())
    if spec.guard is GuardMode.AUTO:
        spec = replace(spec, guard=_safe_mode(spec, cwd))
    try:
        return _with_its_devices(spec, cwd, gpus, locks)
    except OSError as error:
        raise FolderError(
            f"a trial could not be made: {error.strerror or error}",
            seen=str(error.filename or spec.folder),
            hint="make room on this disk, or see who may write there",
        ) from error


def _with_its_devices(spec: TrialSpec, cwd: Path, gpus: Gpus | None, locks: Sequence[int]) -> TrialResult:
    spec.folder.parent.mkdir(parents=True, exist_ok=True)
    if locks:
        return _on_devices(spec, cwd, gpus, locks)
    with all_locked(spec.devices, f"a trial in {spec.folder}") as own:
        return _on_devices(spec, cwd, gpus, own)


def _safe_mode(spec: TrialSpec, cwd: Path) -> GuardMode:
    found = find_coverage(cwd=cwd, environ=spec.env)
    if found.needs_consent:
        raise GuardFailed(
            "a trial could change what is yours", seen="; ".join(found.uncaught), hint="agree with --yes"
        )
    return found.mode


def _on_devices(spec: TrialSpec, cwd: Path, gpus: Gpus | None, locks: Sequence[int]) -> TrialResult:
    if not spec.devices:
        return _from_step_0(spec, cwd, locks)
    return _on_gpus(spec, cwd, gpus or find_gpus(), locks)


def _on_gpus(spec: TrialSpec, cwd: Path, gpus: Gpus, locks: Sequence[int]) -> TrialResult:
    before = {device: look(gpus, device) for device in spec.devices}
    notes = [note for one, state in before.items() for note in check_free(state, one, share=spec.share)]
    result = _from_step_0(spec, cwd, locks)
    for device, state in before.items():
        notes += wait_until_as_before(gpus, device, state)
    return replace(result, notes=(*notes, *result.notes))


def _from_step_0(spec: TrialSpec, cwd: Path, locks: Sequence[int]) -> TrialResult:
    """Again with more hidden, while the script sees what an earlier run left; or with less, while it misses
    something that was."""
    home = spec.folder.parent
    needed = set(outputs.read_paths(home, outputs.NEEDED))
    hidden = {*spec.hide, *outputs.read_paths(home, outputs.HIDDEN)}
    hidden |= set(outputs.named_outputs(spec.command, cwd)) - needed
    for number in range(ATTEMPTS):
        if number:
            shutil.rmtree(spec.folder)
        made = attempt(replace(spec, hide=tuple(sorted(hidden))), cwd, locks)
        if spec.guard is GuardMode.OFF or made.result.exit.ended_by is EndedBy.USER:
            break
        missed = set() if made.ticked else set(outputs.missed(made.last_words, hidden))
        needed |= missed
        new = set(_to_hide(made, spec, cwd, hidden, needed))
        hidden = (hidden | new) - missed
        if missed:
            outputs.write_paths(home, outputs.NEEDED, needed)
        if new or missed:
            outputs.write_paths(home, outputs.HIDDEN, hidden)
        if not missed and not (new and made.saw_an_earlier_run):
            break
    return made.result


def _to_hide(
    made: Attempt, spec: TrialSpec, cwd: Path, hidden: Iterable[Path], shown: Iterable[Path]
) -> tuple[Path, ...]:
    needed = [*outputs.named_inputs(spec.command, cwd), *shown]
    learned = [*outputs.overwritten(made.written), *outputs.with_siblings(made.taken_up)]
    if not made.ticked:
        learned += outputs.refused(made.last_words, cwd, needed)
    fitting = [path for path in learned if outputs.may_hide(path, cwd, needed)]
    return outputs.seen_by_trial(fitting, [cwd / path for path in hidden])
