"""NVML behind the seam: each call may be missing, and costs its own fields only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.model.gpu import GpuReading
from stoker.outside.gpu import gpm, nvml
from stoker.outside.gpu.cpu import CpuDevice
from stoker.outside.gpu.readings import OTHER_NAMESPACE, Reader, device_row, throttle_names
from stoker.outside.gpu.seam import Facts, Refused
from stoker.outside.gpu.watching import GpuWatch
from stoker.outside.journal import Journal

GIB = 2**30
GPM_FIELDS = {
    "sm_active_pct", "sm_occupancy_pct", "tensor_pct", "dram_pct", "fp32_pct", "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s", "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s",
}  # fmt: skip
PROCESS_FIELDS = {"processes", "own_memory_bytes", "own_pids", "foreign_pids", "foreign_memory_bytes"}
FELL_BACK = {"busy_pct", "busy_s", "busy_source"}
"""Changed, not lost: busy comes from NVML where GPM is missing."""
RHYTHM = (True, False, False, True, False, False, True)
"""Which looks are dear."""

LOST = {
    "nvmlGpmQueryDeviceSupport": GPM_FIELDS,
    "nvmlGpmSampleAlloc": GPM_FIELDS,
    "nvmlGpmSampleGet": GPM_FIELDS,
    "nvmlGpmMetricsGet": GPM_FIELDS,
    "c_nvmlGpmMetricsGet_t": GPM_FIELDS,
    "nvmlDeviceGetMemoryInfo": {"memory_used_bytes", "memory_total_bytes"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz"},
    "nvmlDeviceGetPowerUsage": {"power_w"},
    "nvmlDeviceGetTotalEnergyConsumption": {"energy_mj_total"},
    "nvmlDeviceGetTemperature": {"temperature_c"},
    "nvmlDeviceGetComputeRunningProcesses": PROCESS_FIELDS,
    "nvmlDeviceGetUUID": {"uuid"},
    "nvmlDeviceGetName": {"name"},
    "nvmlDeviceGetEnforcedPowerLimit": {"power_limit_w"},
    "nvmlDeviceGetPowerManagementDefaultLimit": {"power_default_w"},
    "nvmlDeviceGetMaxClockInfo": {"sm_clock_max_mhz"},
    "nvmlSystemGetDriverVersion": {"driver"},
    # Not needed while the rest works.
    "nvmlErrorString": set(),
    "nvmlShutdown": set(),
    "nvmlGpmSampleFree": set(),
    "nvmlDeviceGetMigMode": set(),
    # Of a card that is cut into slices alone; see LOST_OF_A_SLICE.
    "nvmlDeviceGetMaxMigDeviceCount": set(),
    "nvmlDeviceGetMigDeviceHandleByIndex": set(),
    "nvmlDeviceGetGpuInstanceId": set(),
    "nvmlGpmMigSampleGet": set(),
    # Each stands in for the other.
    "nvmlDeviceGetCurrentClocksEventReasons": set(),
    "nvmlDeviceGetCurrentClocksThrottleReasons": set(),
    "nvmlDeviceGetSamples": set(),
    "nvmlDeviceGetUtilizationRates": set(),
}
READS_SLICES = ("nvmlDeviceGetGpuInstanceId", "nvmlGpmMigSampleGet")
LOST_OF_A_SLICE = {
    **LOST,
    "nvmlDeviceGetUUID": {"uuid", "parent_uuid"},
    **dict.fromkeys(READS_SLICES, GPM_FIELDS),
    "nvmlGpmSampleGet": set(),
}
FINDS_SLICES = (
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
)
SAMPLE_PCT, RATE_PCT = 30, 77
NO_DEVICE = {"nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.0001
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(gpm.time, "monotonic", clock)
    monkeypatch.setattr(gpm.Gpm.__init__, "__defaults__", (clock,))
    monkeypatch.delenv(nvml.NO_GPM, raising=False)
    return clock


def some_looks(
    module: Any, clock: Clock, card: Any, device: int = 0
) -> tuple[dict[str, object], dict[str, str]]:
    """All fields as last told in some looks 0.2 s apart, device facts among them; and what is missing, and
    why."""
    gpus = nvml.open_nvml(module)
    box = gpus.describe()
    reader = Reader(device, pids_comparable=True)
    told: dict[str, object] = dict.fromkeys(field.name for field in fields(GpuReading))
    for dear in RHYTHM:
        clock.now += 0.2
        card.util_samples += [(card.util_samples[-1][0] + 100_000, SAMPLE_PCT)]
        reading = asdict(reader.reading(clock(), gpus.ask(device, dear=dear), own={41}))
        told |= {name: value for name, value in reading.items() if value is not None}
    facts = box.devices[device]
    assert isinstance(facts, Facts)
    missing = {**reader.missing, **box.extra}
    row = device_row(device, facts, missing)
    return {**asdict(row), **told, "driver": box.driver}, missing


def test_all_of_a_hopper_card(stub_nvml: Callable[..., Any], clock: Clock, card: Any) -> None:
    found, missing = some_looks(stub_nvml(), clock, card)
    assert missing == {}
    assert (found["busy_pct"], found["busy_source"]) == (80.0, "gpm")
    assert found["busy_s"] == pytest.approx(0.2, abs=0.01)
    assert (found["sm_active_pct"], found["tensor_pct"], found["dram_pct"]) == (40.0, 10.0, 5.0)
    assert (found["pcie_tx_bytes_per_s"], found["nvlink_rx_bytes_per_s"]) == (2**20, 3 * 2**20)
    assert found["memory_used_bytes"] == 5 * GIB, "as nvidia-smi counts, without what the driver keeps"
    assert found["throttled_by"] == ("power cap", "thermal slowdown (software)")
    assert (found["power_w"], found["power_limit_w"], found["name"]) == (350.5, 600.0, "NVIDIA H200")
    assert (found["power_default_w"], found["fp32_pct"]) == (700.0, 7.0)
    assert (found["own_memory_bytes"], found["foreign_pids"]) == (3 * GIB, ())
    assert found["nvml_util_pct"] == SAMPLE_PCT
    assert card.pairs == [(n, n + 1) for n in range(1, len(RHYTHM))]


def lost_and_changed(
    call: str, stub_nvml: Callable[..., Any], clock: Clock, card: Any, device: int = 0
) -> tuple[dict[str, str], dict[str, object]]:
    """What is lost without the call, with the reason told; and what is another value."""
    whole, missing_anyway = some_looks(stub_nvml(), clock, card, device)
    found, missing = some_looks(stub_nvml(without=call), clock, card, device)
    lost = {name for name, value in found.items() if value is None and whole[name] is not None}
    assert set(missing) - set(missing_anyway) == lost - {"own_pids"}
    changed = {name: value for name, value in found.items() if value is not None and value != whole[name]}
    return {name: missing.get(name, "") for name in lost}, changed


@pytest.mark.parametrize("call", sorted(LOST))
def test_a_missing_call_costs_its_own_fields_alone(
    call: str, stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    only_its_own(call, LOST[call], *lost_and_changed(call, stub_nvml, clock, card))


def only_its_own(call: str, own: set[str], lost: dict[str, str], changed: dict[str, object]) -> None:
    assert set(lost) == own
    assert all(call in why for name, why in lost.items() if name != "own_pids"), lost
    gone = own == GPM_FIELDS
    by_rate = {"nvml_util_pct"} if call == "nvmlDeviceGetSamples" else set()
    assert set(changed) - {"t", "busy_s"} <= by_rate | (FELL_BACK | {"gpm", "gpm_reason"} if gone else set())
    if gone:
        assert (changed["busy_pct"], changed["busy_source"]) == (SAMPLE_PCT, "nvml")


@pytest.mark.parametrize("call", sorted(LOST))
def test_without_gpm_a_missing_call_costs_its_own_fields_alone(
    call: str, stub_nvml: Callable[..., Any], clock: Clock, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nvml.NO_GPM, "1")
    lost, changed = lost_and_changed(call, stub_nvml, clock, card)
    assert set(lost) == LOST[call] - GPM_FIELDS, "GPM's calls are not made"
    assert all(call in why for name, why in lost.items() if name != "own_pids"), lost
    by_rate = {"busy_pct": RATE_PCT, "nvml_util_pct": RATE_PCT} if call == "nvmlDeviceGetSamples" else {}
    assert {name: changed[name] for name in set(changed) - {"t", "busy_s"}} == by_rate


def test_old_and_new_name_of_the_throttle_reasons(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    new, old = (f"nvmlDeviceGetCurrentClocks{kind}Reasons" for kind in ("Event", "Throttle"))
    module = stub_nvml(without=new, **{old: lambda handle: 0x40})
    found, _ = some_looks(module, clock, card)
    assert found["throttled_by"] == ("thermal slowdown (hardware)",)
    found, _ = some_looks(stub_nvml(**{old: lambda handle: pytest.fail("was asked")}), clock, card)
    assert found["throttled_by"] == ("power cap", "thermal slowdown (software)")
    module = stub_nvml(without=new)
    delattr(module, old)
    found, missing = some_looks(module, clock, card)
    assert (found["throttled_by"], set(missing)) == (None, {"throttled_by"})
    assert new in missing["throttled_by"]


def old_memory_info(card: Any) -> Any:
    """A binding that knows no versions."""
    return lambda handle: SimpleNamespace(total=141 * GIB, used=6 * GIB)


def old_driver_memory_info(card: Any) -> Any:
    """A binding that does, before a driver that has the first version alone."""

    def memory_info(handle: object, version: int | None = None) -> Any:
        card.calls.append(f"version {version}")
        if version:
            raise RuntimeError("Function Not Found")
        return SimpleNamespace(total=141 * GIB, used=6 * GIB)

    return memory_info


@pytest.mark.parametrize("made", [old_memory_info, old_driver_memory_info])
@pytest.mark.parametrize("slices", [0, 1])
def test_where_memory_has_no_second_version_the_first_is_told(
    made: Callable[[Any], Any], slices: int, stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    """With what the driver keeps for itself; nothing else is another."""
    card.slices = slices
    whole, _ = some_looks(stub_nvml(), clock, card, device=slices)
    found, missing = some_looks(stub_nvml(nvmlDeviceGetMemoryInfo=made(card)), clock, card, device=slices)
    assert missing == {}
    assert (whole["memory_used_bytes"], found["memory_used_bytes"]) == (5 * GIB, 6 * GIB)
    changed = {name for name, value in found.items() if value != whole[name]}
    assert changed - {"t", "busy_s"} == {"memory_used_bytes"}
    assert set(card.calls[1:]) <= {"version None"}, "it is not asked again for what it lacks"


@pytest.mark.parametrize("no_gpm", ["", "1"])
def test_without_samples_and_rate_the_utilisation_is_missing(
    no_gpm: str, stub_nvml: Callable[..., Any], clock: Clock, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nvml.NO_GPM, no_gpm)
    module = stub_nvml(without="nvmlDeviceGetSamples")
    del module.nvmlDeviceGetUtilizationRates
    found, missing = some_looks(module, clock, card)
    lost = {"nvml_util_pct", "busy_pct"} if no_gpm else {"nvml_util_pct"}
    assert set(missing) - GPM_FIELDS == lost
    assert all("nvmlDeviceGetUtilizationRates" in missing[name] for name in lost)
    assert (found["busy_pct"] is None) is bool(no_gpm)


def test_between_dear_looks_only_gpm_is_asked(stub_nvml: Callable[..., Any], clock: Clock, card: Any) -> None:
    gpus = nvml.open_nvml(counted(stub_nvml(), card))
    card.calls.clear()
    asked = []
    for dear in (True, False, False, True):
        clock.now += 0.2
        card.util_samples += [(card.util_samples[-1][0] + 200_000, SAMPLE_PCT)]
        gpus.ask(0, dear=dear)
        assert not gpus.poll(0)
        asked.append(list(card.calls))
        card.calls.clear()
    assert asked[1] == asked[2] == ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"]
    assert "nvmlDeviceGetUtilizationRates" in asked[0], "the samples do not say yet since when they speak"
    assert "nvmlDeviceGetUtilizationRates" not in asked[3]
    assert len(asked[3]) == len(set(asked[3])), "no question twice"


def test_with_gpm_nobody_polls_a_driver_without_samples(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    gpus = nvml.open_nvml(stub_nvml(without="nvmlDeviceGetSamples"))
    gpus.ask(0, dear=True)
    clock.now += 0.2
    assert not gpus.poll(0)
    assert gpus.ask(0, dear=False).utilization_pct is None


def test_the_utilisation_is_of_all_samples_since_the_last_dear_look(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    """Copies: GPM sees nothing, the samples do; the driver's latest figure is one of five."""
    card.metrics[1] = 0.0
    gpus, reader = nvml.open_nvml(stub_nvml()), Reader(0, pids_comparable=True)

    def look(dear: bool) -> GpuReading:
        clock.now += 0.2
        return reader.reading(clock(), gpus.ask(0, dear=dear), own=())

    assert look(True).nvml_util_pct == RATE_PCT, "the first time as it stands"
    card.util_samples += [(1_300_000, 100), (1_500_000, 100), (1_600_000, 0)]
    assert look(False).nvml_util_pct is None
    reading = look(True)
    assert (reading.nvml_util_pct, reading.busy_pct, reading.busy_source) == (80.0, 0.0, "gpm")


def counted(module: Any, card: Any) -> Any:
    """Notes the name of every call."""

    def noting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: object) -> Any:
            card.calls.append(name)
            return call(*args)

        return noted

    return SimpleNamespace(**{name: noting(name, call) for name, call in vars(module).items()})


def test_every_call_of_the_stand_in_is_tried(stub_nvml: Callable[..., Any]) -> None:
    assert set(vars(stub_nvml())) == set(LOST) | NO_DEVICE


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount"])
def test_without_nvml_the_device_is_the_cpu(call: str, stub_nvml: Callable[..., Any]) -> None:
    gpus = nvml.open_nvml(stub_nvml(without=call))
    assert isinstance(gpus, CpuDevice)
    box = gpus.describe()
    assert (box.source, box.devices) == ("cpu", ())
    assert call in box.reason


def test_a_lost_gpu_keeps_its_place(stub_nvml: Callable[..., Any]) -> None:
    box = nvml.open_nvml(stub_nvml(without="nvmlDeviceGetHandleByIndex")).describe()
    assert isinstance(box.devices[0], Refused)


def test_without_the_library_the_binding_is_not_even_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> object:
        raise OSError("no such file")

    monkeypatch.setattr(nvml.ctypes, "CDLL", none)
    monkeypatch.setattr(nvml.importlib, "import_module", lambda name: pytest.fail("was imported"))
    assert "no NVIDIA driver" in nvml.find_gpus().describe().reason


def test_gpm_can_be_switched_off(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nvml.NO_GPM, "1")
    found, missing = some_looks(stub_nvml(), clock, card)
    assert (found["busy_source"], found["busy_pct"], found["gpm"]) == ("nvml", 30.0, False)
    assert set(missing) == GPM_FIELDS
    assert all(nvml.NO_GPM in reason for reason in missing.values())
    assert card.samples_taken == 0


def test_a_card_without_gpm_says_so(stub_nvml: Callable[..., Any], clock: Clock, card: Any) -> None:
    no = SimpleNamespace(isSupportedDevice=0)
    found, missing = some_looks(stub_nvml(nvmlGpmQueryDeviceSupport=lambda handle: no), clock, card)
    assert found["gpm_reason"] == missing["sm_active_pct"] == "this card has no GPM (it came with Hopper)"


def test_one_metric_that_is_refused_is_one_field(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    card.metric_errors = {60: 3}
    found, missing = some_looks(stub_nvml(), clock, card)
    assert missing == {"nvlink_rx_bytes_per_s": "GPM: error 3"}
    assert found["nvlink_tx_bytes_per_s"] == 4 * 2**20


def test_busy_falls_back_where_gpm_refuses_just_that(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    card.metric_errors = {1: 3}
    found, missing = some_looks(stub_nvml(), clock, card)
    assert (found["busy_pct"], found["busy_source"], found["sm_active_pct"]) == (SAMPLE_PCT, "nvml", 40.0)
    assert missing == {}


def test_gpm_samples_are_never_closer_than_nvml_wants(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    gpus = nvml.open_nvml(stub_nvml())
    looks = []
    for _ in range(5):
        clock.now += 0.06
        looks.append(gpus.ask(0, dear=False).gpm)
    assert [look is None for look in looks] == [True, True, False, True, False]
    assert card.pairs == [(1, 2), (2, 3)], "each interval begins where the last one ended"


def test_the_drivers_samples_cover_the_whole_interval(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nvml.NO_GPM, "1")
    gpus, reader = nvml.open_nvml(stub_nvml()), Reader(0, pids_comparable=True)

    def look(dear: bool = True) -> GpuReading:
        clock.now += 0.2
        return reader.reading(clock(), gpus.ask(0, dear=dear), own=())

    assert look().busy_pct is None, "what was before the run is not the run's"
    card.util_samples += [(1_200_000, 100)]
    assert look(dear=False).busy_pct is None, "the driver keeps it"
    card.util_samples += [(1_400_000, 10)]
    reading = look()
    assert (reading.busy_pct, reading.busy_s) == (40.0, 0.3)
    assert look().busy_pct is None, "nothing new is not idle"
    card.util_samples += [(1_500_000, 5)]
    assert look().busy_pct == 5.0
    assert "busy_pct" not in reader.missing


def test_after_a_pause_the_samples_speak_for_themselves(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped for a minute, while the driver kept three samples."""
    monkeypatch.setenv(nvml.NO_GPM, "1")
    gpus, reader = nvml.open_nvml(stub_nvml()), Reader(0, pids_comparable=True)
    reader.reading(clock(), gpus.ask(0, dear=True), own=())
    card.util_samples = [(61_000_000, 100), (61_100_000, 0), (61_200_000, 50)]
    reading = reader.reading(clock(), gpus.ask(0, dear=True), own=())
    assert (reading.busy_pct, reading.busy_s) == (50.0, 0.3)


def test_a_driver_that_was_just_woken_has_no_samples_yet(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nvml.NO_GPM, "1")
    card.util_samples = []
    gpus, reader = nvml.open_nvml(stub_nvml()), Reader(0, pids_comparable=True)
    for samples in ([], [(1_000_000, 3)], [(1_000_000, 3), (1_100_000, 60)]):
        card.util_samples = samples
        reading = reader.reading(clock(), gpus.ask(0, dear=True), own=())
    assert (reading.busy_pct, reader.missing.get("busy_pct")) == (60.0, None)
    card.util_samples = []
    never = nvml.open_nvml(stub_nvml())
    refused = [isinstance(never.ask(0, dear=True).samples, Refused) for _ in range(5)]
    assert refused == [False, False, False, True, True]
    assert never.poll(0), "then the rate is asked"


def test_where_there_are_no_samples_the_rate_is_asked_more_often(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(nvml.NO_GPM, "1")
    gpus = nvml.open_nvml(stub_nvml(without="nvmlDeviceGetSamples"))
    reader = Reader(0, pids_comparable=True)
    assert not gpus.poll(0), "not before it is known that there are none"
    reader.reading(clock(), gpus.ask(0, dear=True), own=())
    for rate in (10, 30):
        card.rate = rate
        assert gpus.poll(0)
    card.rate = 80
    clock.now += 0.2
    reading = reader.reading(clock(), gpus.ask(0, dear=False), own=())
    assert (reading.busy_pct, reading.busy_source) == (40.0, "nvml")
    assert gpus.ask(0, dear=False).polled_pct == ()


def test_processes_of_others(stub_nvml: Callable[..., Any], clock: Clock, card: Any) -> None:
    card.processes = [
        SimpleNamespace(pid=41, usedGpuMemory=3 * GIB),
        SimpleNamespace(pid=52, usedGpuMemory=None),
        SimpleNamespace(pid=53, usedGpuMemory=GIB),
    ]
    answers = nvml.open_nvml(stub_nvml()).ask(0, dear=True)
    reader = Reader(0, True, comm=lambda pid: "nvidia-cuda-mps-server" if pid == 53 else "python")
    reading = reader.reading(1.0, answers, own={41, 99})
    assert (reading.processes, reading.own_pids, reading.foreign_pids) == (3, (41,), (52,))
    assert reading.own_memory_bytes == 3 * GIB
    assert reading.foreign_memory_bytes is None
    assert "single processes" in reader.missing["foreign_memory_bytes"]


def test_in_a_container_nobody_is_called_foreign(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    answers = nvml.open_nvml(stub_nvml()).ask(0, dear=True)
    reader = Reader(0, pids_comparable=False)
    reading = reader.reading(1.0, answers, own={7})
    assert (reading.processes, reading.own_pids, reading.foreign_pids) == (1, None, None)
    assert reader.missing["foreign_pids"] == OTHER_NAMESPACE
    sandbox = Reader(0, pids_comparable=True, comm=lambda pid: "")
    assert sandbox.reading(1.0, answers, own={7}).foreign_pids is None, "its /proc does not know them"
    stranger = Reader(0, pids_comparable=True, comm=lambda pid: "python")
    assert stranger.reading(1.0, answers, own={7}).foreign_pids == (41,)
    matched = Reader(0, pids_comparable=False).reading(1.0, answers, own={41})
    assert (matched.own_pids, matched.foreign_pids) == ((41,), ()), "a driver that translates is believed"


def test_names_of_throttling() -> None:
    assert throttle_names(0x1) == (), "idle is no throttling"
    assert throttle_names(0x40 | 0x1) == ("thermal slowdown (hardware)",)
    assert throttle_names(0x4000) == ("reason 0x4000",)


def test_mig_slices_stand_beside_their_gpu(
    stub_nvml: Callable[..., Any], clock: Clock, card: Any, tmp_path: Any
) -> None:
    card.slices = 2
    gpus = nvml.open_nvml(stub_nvml())
    whole, *parts = gpus.describe().devices
    assert isinstance(whole, Facts)
    assert (whole.mig, whole.parent_uuid) == (False, None)
    told = [(part.mig, part.uuid, part.parent_uuid) for part in parts if isinstance(part, Facts)]
    assert told == [(True, "MIG-0", whole.uuid), (True, "MIG-1", whole.uuid)]
    gpus.ask(2, dear=False)
    clock.now += 0.2
    assert gpus.ask(2, dear=False).gpm is not None
    assert card.taken == [("handle 0", 3), ("handle 0", 3)]
    journal = Journal(tmp_path / "gpu.jsonl")
    assert GpuWatch(gpus, journal, "r", clock=clock).sees_gpus
    journal.close()


@pytest.mark.parametrize("call", sorted(set(LOST_OF_A_SLICE) - set(FINDS_SLICES)))
def test_a_missing_call_costs_a_slice_its_own_fields_alone(
    call: str, stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    card.slices = 1
    only_its_own(call, LOST_OF_A_SLICE[call], *lost_and_changed(call, stub_nvml, clock, card, device=1))


@pytest.mark.parametrize("call", [*FINDS_SLICES, *READS_SLICES])
def test_what_slices_need_costs_the_whole_card_nothing(
    call: str, stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    card.slices = 1
    only_its_own(call, set(), *lost_and_changed(call, stub_nvml, clock, card))


@pytest.mark.parametrize("call", FINDS_SLICES)
def test_slices_that_cannot_be_found_are_said_to_be_missing(
    call: str, stub_nvml: Callable[..., Any], clock: Clock, card: Any
) -> None:
    """Once, however many places there are for them; where the mode is not known, nobody knows of slices."""
    card.slices = 2
    _, *parts = nvml.open_nvml(stub_nvml(without=call)).describe().devices
    reasons = [part.reason for part in parts if isinstance(part, Refused)]
    assert len(reasons) == len(parts) == (call != "nvmlDeviceGetMigMode")
    assert all(call in reason for reason in reasons)


@pytest.mark.parametrize("call", FINDS_SLICES)
def test_of_a_card_that_is_not_cut_nobody_misses_slices(call: str, stub_nvml: Callable[..., Any]) -> None:
    (whole,) = nvml.open_nvml(stub_nvml(without=call)).describe().devices
    assert isinstance(whole, Facts)


def test_a_card_in_mig_mode_without_a_slice_lacks_nothing(
    stub_nvml: Callable[..., Any], clock: Clock
) -> None:
    (whole,) = nvml.open_nvml(stub_nvml(nvmlDeviceGetMigMode=lambda handle: [1, 1])).describe().devices
    assert isinstance(whole, Facts)
