"""A device belongs to one Stoker at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.errors import DeviceInUse
from stoker.trials.device_lock import all_locked, locked

UUID, OTHER = "GPU-00000000-0000-0000-0000-000000000001", "GPU-00000000-0000-0000-0000-000000000000"


def test_one_stoker_per_device(tmp_path: Path) -> None:
    other = pytest.raises(DeviceInUse, match="another Stoker")
    with locked(UUID, folder=tmp_path), locked(None, folder=tmp_path), other:
        locked(UUID.upper(), folder=tmp_path).__enter__()
    with locked(UUID, folder=tmp_path):
        pass


def test_who_holds_it_is_told(tmp_path: Path) -> None:
    with all_locked([UUID, OTHER], "stoker ab of train.py since 12:03", tmp_path) as held:
        assert len(held) == 2
        with pytest.raises(DeviceInUse) as caught, all_locked([UUID], "another", tmp_path):
            pass
    assert caught.value.seen == f"process {os.getpid()}, stoker ab of train.py since 12:03"
    with all_locked([UUID], "another", tmp_path):
        pass


def test_without_a_gpu_it_is_the_cpu(tmp_path: Path) -> None:
    with all_locked([], "", tmp_path), pytest.raises(DeviceInUse, match="on the CPU"):
        all_locked([], "", tmp_path).__enter__()


def test_a_lock_of_a_killed_stoker_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its guardian holds it until nothing of its trial is left."""
    held = iter([False, False, True])
    monkeypatch.setattr("stoker.trials.device_lock._taken", lambda descriptor: next(held))
    monkeypatch.setattr("stoker.trials.device_lock.time.sleep", lambda seconds: None)
    monkeypatch.setattr("stoker.trials.device_lock.procfs.identify", lambda pid: None)
    (tmp_path / "cpu.lock").write_text("4312\nstoker ab")
    with locked(None, folder=tmp_path):
        assert next(held, None) is None
