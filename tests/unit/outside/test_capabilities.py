from __future__ import annotations

import types
from typing import Any

import pytest

from stoker.commands import doctor
from stoker.launch import procfs
from stoker.outside import capabilities
from stoker.outside.capabilities import Capability
from stoker.report.text import plain


class Refused(Exception):
    pass


def nvml(**changes: Any) -> Any:
    """A machine with one A100; `changes` replace single calls."""

    def unsupported(handle: object) -> object:
        raise Refused("Function Not Found")

    calls = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"550.54",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: "NVIDIA A100",
        "nvmlGpmQueryDeviceSupport": unsupported,
    }
    return types.SimpleNamespace(**{**calls, **changes})


def fail(*args: object) -> object:
    raise Refused("Driver Not Loaded")


def test_a_gpu_without_gpm() -> None:
    found = capabilities.gpu_capabilities(nvml())
    assert [(one.name, one.available) for one in found] == [
        ("NVML", True),
        ("GPU 0", True),
        ("GPU 0 real work (GPM)", False),
    ]
    assert found[0].detail == "driver 550.54, 1 device(s)"
    assert "Function Not Found" in found[2].reason


def test_a_gpu_with_gpm(stub_nvml: Any) -> None:
    found = capabilities.gpu_capabilities(stub_nvml())
    assert [(one.name, one.available) for one in found][-1] == ("GPU 0 real work (GPM)", True)


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount"])
def test_no_driver_is_said_not_raised(call: str) -> None:
    found = capabilities.gpu_capabilities(nvml(**{call: fail}))
    assert [(one.name, one.available) for one in found] == [("NVML", False)]
    assert "Driver Not Loaded" in found[0].reason


def test_one_broken_gpu_does_not_hide_the_other() -> None:
    def handle(index: int) -> int:
        if index == 0:
            raise Refused("GPU is lost")
        return index

    found = capabilities.gpu_capabilities(
        nvml(nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetHandleByIndex=handle)
    )
    by_name = {one.name: one for one in found}
    assert by_name["GPU 0"].reason == "nvmlDeviceGetHandleByIndex: GPU is lost"
    assert by_name["GPU 1"].available


def test_every_refusal_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of /proc or /sys readable."""
    monkeypatch.setattr(procfs, "read", lambda path: None)
    monkeypatch.setattr(procfs, "list_pids", lambda: None)
    found = {one.name: one for one in capabilities.host_capabilities()}
    assert not found["process tree (/proc)"].available
    assert not found["pressure (PSI)"].available
    assert not found["disk bytes per process"].available
    assert all(one.reason for one in found.values() if not one.available)


def test_the_page_keeps_what_is_there_apart_from_what_is_not() -> None:
    page = doctor.build_page(
        [Capability("process tree (/proc)", True, "9"), Capability("NVML", False, reason="no driver\x1b[31m")]
    )
    shown = plain(page)
    assert "1 of 2" in shown
    assert "No GPU is seen" in shown
    assert "- NVML: no driver\\x1b[31m" in shown
    assert shown.rstrip().endswith("next: stoker run -- python train.py")


def test_without_proc_the_sentence_does_not_promise_the_host() -> None:
    shown = plain(doctor.build_page([Capability("process tree (/proc)", False, reason="hidden")]))
    assert "Only what a training tells from inside" in shown


@pytest.mark.parametrize(("text", "counted"), [("5000 12 3", True), ("0 0 0", False), (None, False)])
def test_a_kernel_that_does_not_count_waits_for_a_core_is_told(
    monkeypatch: pytest.MonkeyPatch, text: str | None, counted: bool
) -> None:
    monkeypatch.setattr(procfs, "read_text", lambda path: text)
    told = capabilities._schedstat("waits for a core")
    assert told.available is counted
    assert bool(told.reason) is not counted
