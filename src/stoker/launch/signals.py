"""Which signals Stoker holds back while a command runs, and what becomes of each.

In the foreground of a terminal the command shares our process group and hears Ctrl-C from the kernel, as
we do: passing it on would make it two. Everywhere else (cron, CI, nohup, `&`) it has a group of its own and
hears only what we pass on. Signals are blocked and fetched with `sigtimedwait`, which tells a key press from
a `kill`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

ASK_TO_END = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
_PASSED_ON = ASK_TO_END | {signal.SIGUSR1, signal.SIGUSR2}
_JOB_CONTROL = frozenset({signal.SIGTSTP, signal.SIGCONT})
FROM_KERNEL = 0x80  # SI_KERNEL: the terminal, or the kernel itself
_SAME_SENDER_AGAIN_S = 0.1


def in_foreground() -> bool:
    """Whether keys pressed on our terminal reach this process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


class Gate:
    """Signals held back from `close` to `open`; what was ignored when Stoker started stays ignored."""

    def __init__(self, *, shares_group: bool) -> None:
        wanted = _PASSED_ON if shares_group else _PASSED_ON | _JOB_CONTROL
        heard = {number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN}
        self._held = heard | {signal.SIGCHLD}
        self.first_mask: Iterable[int] = ()

    def close(self) -> None:
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # The one exception: with SIGCHLD ignored the kernel throws the exit status away.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.first_mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._held)

    def next(self, timeout_s: float) -> signal.struct_siginfo | None:
        """Stopped and continued past its time, Python's `sigtimedwait` returns what nobody sent (3.11)."""
        heard = signal.sigtimedwait(self._held, max(timeout_s, 0.0))
        return heard if heard is not None and heard.si_signo in self._held else None

    def open(self) -> None:
        """Drop what came after the end: a Ctrl-C meant for the command must not end the report."""
        while self.next(0.0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, self.first_mask)


def die_of_interrupt() -> None:
    """As the command did: a shell's loop goes on after an exit code, and ends when its command was
    interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


class Repeats:
    """Tells the second half of one request to end: `timeout` signals the process, then its whole group."""

    def __init__(self) -> None:
        self._last: tuple[int, int, float] = (0, 0, float("-inf"))

    def seen(self, number: int, sender_pid: int, now: float) -> bool:
        last_number, last_sender, last_time = self._last
        same = number in ASK_TO_END and (number, sender_pid) == (last_number, last_sender)
        if same and now - last_time < _SAME_SENDER_AGAIN_S:
            return True
        self._last = (number, sender_pid, now)
        return False


class Insistence:
    """A second Ctrl-C insists, a third will not wait. Presses far apart are each a first one: a debugger
    session, or a script that saves on Ctrl-C, is not to be killed for using it."""

    def __init__(self, *, patience_s: float = 3.0, forget_s: float = 30.0) -> None:
        self._patience_s = patience_s
        self._forget_s = forget_s
        self._presses: list[float] = []

    def press(self, now: float) -> None:
        if self._presses and now - self._presses[-1] > self._forget_s:
            self._presses.clear()
        self._presses.append(now)

    @property
    def end_at(self) -> float:
        """When the tree is to be ended; infinity while nobody insists."""
        return self._presses[1] + self._patience_s if len(self._presses) >= 2 else float("inf")

    @property
    def at_once(self) -> bool:
        return len(self._presses) >= 3
