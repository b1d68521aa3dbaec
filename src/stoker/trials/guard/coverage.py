"""Which guard works here, found out by trying it, and what it does not catch.

The best first: the kernel's overlay catches every process; redirection inside catches Python, and with it
the kernel's fence refuses the rest; redirection alone lets the rest through, so the user has to agree.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.launch.brief import run_briefly
from stoker.launch.guardian import remove_folder
from stoker.trials.guard import kernel
from stoker.trials.guard.mode import GuardMode
from stoker.trials.guard.plan import GuardPlan
from stoker.trials.guard.shadow_folder import choose_base, made_shadow

ENTRY = Path(__file__).with_name("entry.py")
_ORDER = (GuardMode.OVERLAY, GuardMode.FENCE, GuardMode.REDIRECT)
_TRACKERS = {
    "MLFLOW_TRACKING_URI": "MLflow",
    "NEPTUNE_API_TOKEN": "Neptune",
    "AIM_REMOTE_URI": "Aim",
    "CLEARML_API_HOST": "ClearML",
}
_WRITE = "import sys; open(sys.argv[1], 'w').write('x')"


@dataclass(frozen=True, slots=True)
class Coverage:
    mode: GuardMode
    uncaught: tuple[str, ...] = ()
    """What a trial can still change, in words; shown before the first one."""
    why_not: tuple[str, ...] = ()
    """Better guards that do not work here, each with the reason."""
    needs_consent: bool = False
    """Files of the user's could be changed: a trial needs the user's word (`--yes`)."""


def find_coverage(
    wanted: GuardMode = GuardMode.AUTO, *, cwd: Path, environ: Mapping[str, str] | None = None
) -> Coverage:
    environ = os.environ if environ is None else environ
    if wanted is not GuardMode.AUTO:
        reason = "" if wanted is GuardMode.OFF else _why_not(wanted, cwd)
        return _coverage(GuardMode.REDIRECT if reason else wanted, [reason] if reason else [], cwd, environ)
    why_not: list[str] = []
    for mode in _ORDER:
        reason = _why_not(mode, cwd)
        if not reason:
            return _coverage(mode, why_not, cwd, environ)
        why_not.append(f"{mode.value}: {reason}")
    return _coverage(GuardMode.OFF, why_not, cwd, environ)


def _coverage(mode: GuardMode, why_not: list[str], cwd: Path, environ: Mapping[str, str]) -> Coverage:
    trackers = [f"runs reported to {name} ({key})" for key, name in _TRACKERS.items() if environ.get(key)]
    uncaught = _UNCAUGHT[mode] + tuple(trackers)
    consent = mode in (GuardMode.REDIRECT, GuardMode.OFF) or bool(trackers)
    return Coverage(mode, uncaught, tuple(why_not), consent)


_NETWORK = "what the script sends over the network"
_UNCAUGHT = {
    GuardMode.OVERLAY: (_NETWORK, "shared memory (/dev/shm), /run, new files directly in / or /var/tmp"),
    GuardMode.FENCE: (
        _NETWORK,
        "modes and times of files, changed by a program that is not Python",
        "a program that is not Python, or a C++ library, cannot write at all: it gets an error",
    ),
    GuardMode.REDIRECT: (
        _NETWORK,
        "files written by a program that is not Python (sh, a compiled logger)",
        "files written by a C++ library (h5py, OpenCV, Arrow); torch, NumPy and sqlite3 are caught",
        "a Python started with -I, -E or -S",
    ),
    GuardMode.OFF: ("everything: trials write where the script writes",),
}


def _why_not(mode: GuardMode, cwd: Path) -> str:
    """Empty where it works: tried with a file that must not appear in the user's folder."""
    if mode is GuardMode.REDIRECT:
        return ""
    if mode is GuardMode.FENCE and kernel.landlock_version() == 0:
        return "this kernel has no Landlock, or does not let us use it"
    if mode is GuardMode.OVERLAY and (reason := _driver_asleep()):
        return reason
    try:
        shadow = made_shadow(choose_base(cwd))
    except OSError as error:
        return f"no folder for the shadow: {error}"
    try:
        return _tried(mode, cwd, shadow)
    finally:
        remove_folder(shadow)


def _driver_asleep() -> str:
    """In a user namespace the driver's set-uid helper cannot make the devices that are missing."""
    if os.path.exists("/dev/nvidiactl") and not os.path.exists("/dev/nvidia-uvm"):
        return "/dev/nvidia-uvm is not there yet; run nvidia-smi or any CUDA program once"
    return ""


def _tried(mode: GuardMode, cwd: Path, shadow: Path) -> str:
    probe = cwd / f".stoker-probe-{secrets.token_hex(4)}"
    plan = GuardPlan(mode, str(shadow), str(cwd), through=(str(shadow),) if mode is GuardMode.FENCE else ())
    command = guarded([sys.executable, "-c", _WRITE, str(probe)], plan.write(shadow))
    done = run_briefly(command, {**os.environ, "PYTHONPATH": ""}, cwd=cwd)
    touched = probe.exists()
    with contextlib.suppress(OSError):
        probe.unlink()
    if touched:
        return "a write reached the user's folder"
    if done.code is None or (mode is GuardMode.OVERLAY and done.code != 0):
        return (done.output.strip().splitlines() or ["no answer"])[-1]
    return "" if mode is GuardMode.OVERLAY or "PermissionError" in done.output else "nothing was refused"


def guarded(command: list[str], plan_path: Path) -> list[str]:
    return [sys.executable, str(ENTRY), str(plan_path), "--", *command]
