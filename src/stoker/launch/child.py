"""Start a command as if Stoker were not there, wait for it, and end it with its tree when asked.

The command gets our descriptors 0, 1, 2 (and what was handed to us on purpose, as bash does for `<(…)`), our
working folder, the signal mask and dispositions we were started with, and no shell in between. Call `start`
before any thread is made: threads inherit the blocked signals only from then on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from stoker.errors import FolderError, UsageError
from stoker.launch import procfs, reaper, tree
from stoker.launch.command import locate, not_runnable
from stoker.launch.procfs import Identity
from stoker.launch.reaper import become_subreaper
from stoker.launch.signals import ASK_TO_END, FROM_KERNEL, Gate, Insistence, Repeats, in_foreground
from stoker.launch.tree import RUN_MARKER, Ladder, Member
from stoker.model.exit import EndedBy, Exit

__all__ = ["RUN_MARKER", "Child", "EndedBy", "Exit", "become_subreaper", "start"]

_LOOK_S = 0.1
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these from its start; what it found before cannot be known, the default is the usual."""


def start(
    argv: Sequence[str], env: Mapping[str, str], *, cwd: Path | None = None, output: int | None = None
) -> Child:
    """With `output`, a descriptor, its two outputs go there and it has nothing to read."""
    if not argv:
        raise UsageError("there is no command to run", hint="stoker run -- python train.py")
    path = locate(argv[0], env, cwd)
    shares_group = in_foreground()
    gate = Gate(shares_group=shares_group)
    gate.close()
    try:
        with _in_folder(cwd):
            pid = _spawn(path, argv, env, gate, shares_group, output)
    except OSError as error:
        gate.open()
        raise not_runnable(path, error, Path(cwd or ".")) from None
    except BaseException:
        gate.open()
        raise
    return Child(pid, env.get(RUN_MARKER, ""), gate, shares_group)


def _spawn(
    path: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    gate: Gate,
    shares_group: bool,
    output: int | None,
) -> int:
    as_started = {"setsigmask": gate.first_mask, "setsigdef": _CHANGED_BY_PYTHON}
    if output is not None:
        as_started["file_actions"] = (  # type: ignore[assignment]
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        )
    if shares_group:
        return os.posix_spawn(path, argv, env, **as_started)  # type: ignore[arg-type]
    return os.posix_spawn(path, argv, env, setpgroup=0, **as_started)  # type: ignore[arg-type]


@contextlib.contextmanager
def _in_folder(cwd: Path | None) -> Iterator[None]:
    """posix_spawn knows no folder, so we are there for the moment of the call."""
    if cwd is None:
        yield
        return
    back = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        _enter(cwd)
        yield
    finally:
        os.fchdir(back)
        os.close(back)


def _enter(folder: Path) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise FolderError(f"cannot work in {folder}", seen=error.strerror or str(error)) from None


class Child:
    def __init__(self, pid: int, run_id: str, gate: Gate, shares_group: bool) -> None:
        self.pid = pid
        self.run_id = run_id
        self.shares_group = shares_group
        self.started_s = time.monotonic()
        # Not reaped yet, so the PID is still its own, even if it has ended already.
        stat = procfs.read_stat(pid)
        self.identity = stat.identity if stat else Identity(pid, None)
        self.beat_error: Exception | None = None
        """What `on_beat` failed with; it is not called again after that."""
        self.not_ended: Sequence[Member] = ()
        """Processes which outlived SIGKILL."""
        self._gate = gate
        self._status: reaper.Status | None = None
        self._asked_to_end = False
        self._timed_out = False
        self._ended_early: EndedBy | None = None
        self._insistence = Insistence()
        self._repeats = Repeats()

    @property
    def cpu_s(self) -> float | None:
        """After its end: what it used, exactly, with all below it that was waited for."""
        return self._status.cpu_s if self._status else None

    def end_early(self, as_: EndedBy = EndedBy.STOKER) -> None:
        """From `on_beat`: the tree is ended at once, TERM first; as at its time limit, INT first."""
        self._ended_early = self._ended_early or as_

    def members(self) -> list[Member]:
        """All live processes of the run."""
        if self.identity.create_time is None:  # without /proc: the one process that is surely ours
            return [] if self._status is not None else [Member(self.identity, os.getpid(), self.pid, "")]
        return tree.members(self.run_id, self.identity, adopter=os.getpid(), own=reaper.OWN)

    def wait(
        self,
        *,
        limit_s: float | None = None,
        grace_s: float = 10.0,
        on_beat: Callable[[], None] | None = None,
        beat_s: float = 1.0,
    ) -> Exit:
        """Until it has ended; with `limit_s`, its tree is ended that long after the start."""
        end_at = float("inf") if limit_s is None else self.started_s + limit_s
        try:
            return self._wait(end_at, grace_s, on_beat, beat_s)
        finally:
            self._gate.open()

    def _wait(self, end_at: float, grace_s: float, on_beat: Callable[[], None] | None, beat_s: float) -> Exit:
        ladder: Ladder | None = None
        beat_at = time.monotonic() + beat_s
        while True:
            self._reap()
            now = time.monotonic()
            if self._status is not None and ladder is None:
                return self._exit()
            ladder = ladder or self._ladder_when_due(now, end_at, grace_s)
            if ladder is not None and self._climb(ladder, now) and self._status is not None:
                self.not_ended = ladder.left
                return self._exit()
            if now >= beat_at:
                beat_at = now + beat_s
                self._beat(on_beat)
                if self._ended_early and ladder is None:
                    continue
            wake_at = min(beat_at, end_at, self._insistence.end_at) if ladder is None else now + _LOOK_S
            event = self._gate.next(wake_at - time.monotonic())
            if event is not None:
                self._hear(event)

    def _ladder_when_due(self, now: float, end_at: float, grace_s: float) -> Ladder | None:
        if now >= end_at:
            self._timed_out = True
            return Ladder(self.members, tree.ALL_STEPS, grace_s, now)
        if self._ended_early or now >= self._insistence.end_at or self._insistence.at_once:
            in_order = self._ended_early is EndedBy.TIME_LIMIT
            return Ladder(self.members, tree.ALL_STEPS[0 if in_order else 1 :], grace_s, now)
        return None

    def _climb(self, ladder: Ladder, now: float) -> bool:
        if self._insistence.at_once:
            ladder.kill_now(now)
        return ladder.advance(now)

    def _reap(self) -> None:
        status = reaper.take_status(self.pid)
        self._status = status if self._status is None else self._status

    def _beat(self, on_beat: Callable[[], None] | None) -> None:
        if on_beat is None or self.beat_error is not None:
            return
        try:
            on_beat()
        except Exception as error:  # a status line that fails must not end the training
            self.beat_error = error

    def _exit(self) -> Exit:
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status.wait_status)
        by_us = self._ended_early or EndedBy.ITSELF
        by_user = EndedBy.USER if self._asked_to_end else by_us
        ended_by = EndedBy.TIME_LIMIT if self._timed_out else by_user
        return Exit(None, -code, ended_by) if code < 0 else Exit(code, None, ended_by)

    def _hear(self, event: signal.struct_siginfo) -> None:
        number = event.si_signo
        if number == signal.SIGCHLD:
            return
        from_kernel = event.si_code == FROM_KERNEL
        now = time.monotonic()
        if not from_kernel and self._repeats.seen(number, event.si_pid, now):
            return
        if number == signal.SIGINT:
            self._insistence.press(now)
        if self._status is not None:  # only the rest of its tree is left to end
            return
        self._asked_to_end = self._asked_to_end or number in ASK_TO_END
        if not self.shares_group:
            self._pass_to_group(number)
        elif not from_kernel:
            self._pass_to_members_of_our_group(number)

    def _pass_to_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # SIGTSTP itself is held back

    def _pass_to_members_of_our_group(self, number: int) -> None:
        """As a key press would have reached them: a script's shell and the Python it waits for."""
        group = os.getpgrp()
        heard = [member.identity for member in self.members() if member.group == group]
        for identity in heard or [self.identity]:
            tree.send(identity, number)
