"""One process as the kernel shows it in /proc: parsers of text, and readers that give None where there is
nothing to read.

Start times are seconds after boot, not wall clock: a corrected clock must not make a process look like
another.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a process is: a PID is used again, a PID with its start time is not."""

    pid: int
    create_time: float | None
    """Seconds after boot; None where /proc cannot be read."""


@dataclass(frozen=True, slots=True)
class Stat:
    pid: int
    name: str
    state: str
    parent_pid: int
    group: int
    kernel_thread: bool
    major_faults: int
    reaped_major_faults: int
    """Of children already waited for, and of theirs."""
    cpu_s: float
    reaped_cpu_s: float
    threads: int
    create_time: float
    rss_bytes: int

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.create_time)

    @property
    def dead(self) -> bool:
        """A zombie; one whose first thread has ended while others run is still at work."""
        return self.state in "XZ" and self.threads <= 1


@cache
def _ticks_per_s() -> int:
    return os.sysconf("SC_CLK_TCK")


@cache
def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def parse_stat(text: str) -> Stat | None:
    """`/proc/<pid>/stat`; the name stands in parentheses and may itself hold spaces and parentheses."""
    head, closing, tail = text.rpartition(")")
    pid, opening, name = head.partition("(")
    field = tail.split()
    if not closing or not opening or len(field) < 22:
        return None
    tick = _ticks_per_s()
    try:
        return Stat(
            pid=int(pid),
            name=name,
            state=field[0],
            parent_pid=int(field[1]),
            group=int(field[2]),
            kernel_thread=bool(int(field[6]) & _KERNEL_THREAD),
            major_faults=int(field[9]),
            reaped_major_faults=int(field[10]),
            cpu_s=(int(field[11]) + int(field[12])) / tick,
            reaped_cpu_s=(int(field[13]) + int(field[14])) / tick,
            threads=int(field[17]),
            create_time=int(field[19]) / tick,
            rss_bytes=int(field[21]) * _page_bytes(),
        )
    except ValueError:
        return None


def read(path: str) -> bytes | None:
    """The whole of a small kernel file; None where it is gone or not ours to read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = [os.read(descriptor, 65536)]
        while parts[-1]:
            parts.append(os.read(descriptor, 65536))
        return b"".join(parts)
    except OSError:  # the process ended between open and read
        return None
    finally:
        os.close(descriptor)


def read_text(path: str) -> str | None:
    found = read(path)
    return None if found is None else found.decode("utf-8", "replace")


def read_stat(pid: int) -> Stat | None:
    text = read_text(f"/proc/{pid}/stat")
    return None if text is None else parse_stat(text)


def identify(pid: int) -> Identity | None:
    """The live process that has this PID now."""
    stat = read_stat(pid)
    return None if stat is None or stat.dead else stat.identity


def list_pids() -> list[int] | None:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()] or None
    except OSError:
        return None


def carries(pid: int, marker: bytes) -> bool | None:
    """Whether `NAME=value` is in the environment it was started with; None where that is not readable."""
    environ = read(f"/proc/{pid}/environ")
    return None if environ is None else marker in environ.split(b"\0")
