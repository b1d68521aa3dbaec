"""How long the training thread had no core, from a /proc of our own making."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.model.host import CoreWait
from stoker.outside import core_waits
from stoker.outside.core_waits import CoreWaits, parse_schedstat

PID, BACKWARD = 40, 47


class Scheduler:
    """Seconds on a core and without one, by thread, of one process with a backward thread of torch."""

    def __init__(self) -> None:
        self.times = {PID: (1.0, 0.5), 41: (9.0, 9.0), BACKWARD: (2.0, 0.25)}
        self.names = {PID: "python", 41: "pin_memory", BACKWARD: "pt_autograd_0"}

    def read_text(self, path: str) -> str | None:
        thread, name = int(path.split("/")[4]), path.split("/")[5]
        if thread not in self.times:
            return None
        if name == "comm":
            return self.names[thread] + "\n"
        return "{:.0f} {:.0f} 12\n".format(*(1e9 * seconds for seconds in self.times[thread]))


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    world, listdir = Scheduler(), os.listdir
    monkeypatch.setattr(core_waits, "read_text", world.read_text)
    tasks = f"/proc/{PID}/task"
    monkeypatch.setattr(
        os, "listdir", lambda path: [str(one) for one in world.times] if path == tasks else listdir(path)
    )
    return world


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / f"{PID}-0.jsonl").touch()
    (tmp_path / f"{PID}-0.first.tsv").touch()
    (tmp_path / "workers-40.jsonl").touch()
    return tmp_path


def test_the_first_thread_and_those_of_backward_count(scheduler: Scheduler, inside: Path) -> None:
    waits = CoreWaits(inside)
    assert list(waits.look({PID, 50}, 7.0)) == [CoreWait(7.0, PID, 3.0, 0.75, 2)]
    scheduler.times[PID] = (1.5, 0.75)
    assert list(waits.look({PID}, 8.0)) == [CoreWait(8.0, PID, 3.5, 1.0, 2)]


def test_a_thread_that_has_ended_keeps_its_times(scheduler: Scheduler, inside: Path) -> None:
    waits = CoreWaits(inside)
    list(waits.look({PID}, 7.0))
    del scheduler.times[BACKWARD]
    assert list(waits.look({PID}, 8.0)) == [CoreWait(8.0, PID, 3.0, 0.75, 2)]


def test_a_process_that_is_not_seen_from_inside_or_gone_has_none(scheduler: Scheduler, inside: Path) -> None:
    waits = CoreWaits(inside)
    assert list(waits.look({50}, 7.0)) == []
    assert list(waits.look({PID}, 8.0)) != []
    assert list(waits.look(set(), 9.0)) == []


def test_a_process_that_begins_to_train_later_is_found(scheduler: Scheduler, tmp_path: Path) -> None:
    waits = CoreWaits(tmp_path / "inside")
    assert list(waits.look({PID}, 7.0)) == []
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / f"{PID}-0.jsonl").touch()
    assert len(list(waits.look({PID}, 8.0))) == 1


def test_a_kernel_that_does_not_count_gives_no_row(
    scheduler: Scheduler, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_waits, "read_text", lambda path: None)
    assert list(CoreWaits(inside).look({PID}, 7.0)) == []


@pytest.mark.parametrize("text", ["", "12", "a b 3", "-1 2 3"])
def test_what_is_no_schedstat_is_not_understood(text: str) -> None:
    assert parse_schedstat(text) is None
