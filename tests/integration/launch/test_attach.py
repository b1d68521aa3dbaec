from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from stoker.errors import UsageError
from stoker.outside import attach


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_no_such_process(job: subprocess.Popen[bytes]) -> None:
    job.kill()
    job.wait()
    with pytest.raises(UsageError) as caught:
        attach.find(job.pid)
    assert f"there is no process {job.pid}" in str(caught.value)


def test_it_is_followed_to_its_end(job: subprocess.Popen[bytes]) -> None:
    beats = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 2:
            os.kill(job.pid, signal.SIGKILL)
            job.wait()

    assert attach.follow(attach.find(job.pid), on_beat=beat, beat_s=0.02)
    assert len(beats) >= 2


def test_a_limit_leaves_it_alone(job: subprocess.Popen[bytes]) -> None:
    assert not attach.follow(attach.find(job.pid), limit_s=0.05, beat_s=0.02)
    assert job.poll() is None
