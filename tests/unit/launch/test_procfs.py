from __future__ import annotations

import os

import pytest

from stoker.launch import procfs

TICKS = os.sysconf("SC_CLK_TCK")


def stat_line(
    name: str = "python3", state: str = "S", parent: int = 1, threads: int = 1, start_ticks: int = 500
) -> str:
    after = [state, parent, 77, 77, 0, -1, 4194304, 10, 20, 3, 4, 2 * TICKS, TICKS, 5 * TICKS, 0, 20, 0]
    after += [threads, 0, start_ticks, 1000000, 256, 18446744073709551615]
    return f"4312 ({name}) " + " ".join(map(str, after)) + "\n"


def test_the_fields_of_a_process() -> None:
    stat = procfs.parse_stat(stat_line(parent=12))
    assert stat is not None
    assert (stat.pid, stat.name, stat.parent_pid, stat.group) == (4312, "python3", 12, 77)
    assert (stat.cpu_s, stat.reaped_cpu_s) == (3.0, 5.0)
    assert (stat.major_faults, stat.reaped_major_faults) == (3, 4)
    assert stat.create_time == 500 / TICKS
    assert stat.rss_bytes == 256 * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ["a b", "x) S 9 (y", "(sd-pam)", ")"])
def test_a_name_may_hold_anything(name: str) -> None:
    stat = procfs.parse_stat(stat_line(name))
    assert stat is not None
    assert (stat.name, stat.parent_pid) == (name, 1)


@pytest.mark.parametrize("text", ["", "4312 (python3) S 1", "garbage", "x (y) " + "a " * 30])
def test_garbage_is_no_process(text: str) -> None:
    assert procfs.parse_stat(text) is None


@pytest.mark.parametrize(("state", "threads", "dead"), [("S", 1, False), ("Z", 1, True), ("Z", 4, False)])
def test_a_zombie_with_running_threads_is_not_dead(state: str, threads: int, dead: bool) -> None:
    stat = procfs.parse_stat(stat_line(state=state, threads=threads))
    assert stat is not None
    assert stat.dead is dead


def test_nothing_readable_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    assert procfs.read_stat(1) is None
    assert procfs.carries(1, b"A=b") is None
    assert procfs.list_pids() is None
    assert procfs.identify(1) is None


def test_a_marker_counts_only_as_a_whole_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = b"HOME=/\0STOKER_RUN=abc1\0X=STOKER_RUN=abc\0"
    monkeypatch.setattr(procfs, "read", lambda path: environ)
    assert procfs.carries(1, b"STOKER_RUN=abc1") is True
    assert procfs.carries(1, b"STOKER_RUN=abc") is False
