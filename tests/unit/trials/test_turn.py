"""Looks at GPUs before and after a trial, with a fake one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.errors import DeviceInUse, UsageError
from stoker.outside.gpu.fake import FakeGpus, fake_facts
from stoker.trials.turn import check_free, look, wait_until_as_before

UUID = "GPU-00000000-0000-0000-0000-000000000001"


def gpus() -> FakeGpus:
    fake = FakeGpus(devices=[fake_facts(0), fake_facts(1)])
    fake.answers = [replace(answers, memory_used_bytes=2**20) for answers in fake.answers]
    return fake


def test_a_gpu_in_use_is_refused_unless_it_is_to_be_shared() -> None:
    fake = gpus()
    fake.used_by(1, 4312)
    state = look(fake, UUID)
    with pytest.raises(DeviceInUse, match="somebody else") as caught:
        check_free(state, UUID, share=False)
    assert "4312" in caught.value.seen
    assert "shared" in check_free(state, UUID, share=True)[0]
    assert check_free(look(fake, fake_facts(0).uuid), UUID, share=False) == []  # type: ignore[arg-type]


def test_memory_held_by_hidden_processes_counts() -> None:
    fake = gpus()
    fake.answers[1] = replace(fake.answers[1], memory_used_bytes=5 * 2**30)
    with pytest.raises(DeviceInUse):
        check_free(look(fake, UUID), UUID, share=False)


def test_after_a_trial_the_gpu_is_waited_for() -> None:
    fake = gpus()
    before = look(fake, UUID)
    fake.used_by(1, 99)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            fake.used_by(1)

    assert wait_until_as_before(fake, UUID, before, clock=lambda: 0.0, pause=pause) == []
    assert len(pauses) == 3
    fake.used_by(1, 99)
    clock = iter([0.0, 31.0])
    notes = wait_until_as_before(fake, UUID, before, clock=lambda: next(clock), pause=pauses.append)
    assert "99" in notes[0]


def test_an_unknown_gpu_lists_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        look(gpus(), "GPU-none")
    assert "000000000001" in caught.value.seen


def test_a_slowed_gpu_is_noted() -> None:
    fake = gpus()
    fake.answers[1] = replace(fake.answers[1], throttle_bits=0x40)
    assert "thermal" in check_free(look(fake, UUID), UUID, share=False)[0]
