"""The GPUs of a run over a window: which ones, their means, who else was there, what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.diagnose.gpu_view import HIDDEN, TIME_SLICING, gpus_view, job_uuids, watcher_cost
from stoker.model.gpu import (
    GpuCost,
    GpuDevice,
    GpuHeader,
    GpuMissing,
    GpuReading,
    GpuRecord,
    bare_uuid,
)
from stoker.model.record import DeviceUse
from stoker.outside.gpu.recording import ReplayGpus
from stoker.outside.gpu.watching import GpuWatch
from stoker.outside.journal import Journal
from stoker.store.gpu_files import read_gpu

GIB = 2**30
UUID = "GPU-aaaa-0"
H200 = Path(__file__).parents[2] / "recordings" / "gpu" / "h200.jsonl"


def looks(busy: list[float], gpu: int = 0, start_s: float = 100.0, **more: Any) -> list[GpuReading]:
    """One a second, each over the second before it."""
    return [
        GpuReading(start_s + n + 1, gpu, busy_pct=share, busy_s=1.0, busy_source="gpm", **more)
        for n, share in enumerate(busy)
    ]


def record(
    readings: list[GpuReading], *devices: GpuDevice, comparable: bool = True, **more: Any
) -> GpuRecord:
    header = GpuHeader("stoker.gpu/1", "id", 0.2, 0.0, 0.0, "fake", pids_comparable=comparable)
    shown = devices or (GpuDevice(0, UUID, "H200", 141 * GIB, 700.0, 1980, gpm=True),)
    return replace(GpuRecord(header, tuple(shown), tuple(readings)), **more)


def run_of(make: Any, gpu: GpuRecord, *uses: DeviceUse) -> Any:
    return replace(make.run(make.training({"forward": 1.0}, devices=uses)), gpu=gpu)


def use(uuid: str | None = "GPU-aaaa-0", t_s: float = 100.0, **more: Any) -> DeviceUse:
    return DeviceUse(t_s, 0, uuid, "H200", 141 * GIB, **more)


def test_a_reading_counts_by_the_part_of_the_window_it_covers(make: Any) -> None:
    run = run_of(make, record(looks([0.0, 100.0, 40.0, 90.0], sm_active_pct=10.0)), use())
    (view,) = gpus_view(run, 101.5, 103.0).devices
    assert view.covered_s == pytest.approx(1.5)
    assert view.busy_pct == pytest.approx((0.5 * 100 + 1.0 * 40) / 1.5)
    assert (view.sm_active_pct, view.tensor_pct, view.busy_source) == (10.0, None, "gpm")


def test_copies_are_what_nvml_saw_and_gpm_did_not(make: Any) -> None:
    run = run_of(make, record(looks([10.0] * 6, nvml_util_pct=70.0)), use())
    (view,) = gpus_view(run, 100.0, 106.0).devices
    assert view.copying_pct == pytest.approx(60.0)
    assert (view.busy_pct, view.busy_source) == (pytest.approx(70.0), "gpm+nvml")


def test_two_counters_that_nearly_agree_tell_no_copies(make: Any) -> None:
    run = run_of(make, record(looks([60.0] * 6, nvml_util_pct=67.0)), use())
    (view,) = gpus_view(run, 100.0, 106.0).devices
    assert (view.copying_pct, view.busy_pct, view.busy_source) == (0.0, pytest.approx(60.0), "gpm")
    less = run_of(make, record(looks([60.0] * 6, nvml_util_pct=40.0)), use())
    assert gpus_view(less, 100.0, 106.0).devices[0].busy_pct == pytest.approx(60.0)


def test_work_before_the_window_is_no_copy_in_it(make: Any) -> None:
    """The utilisation told first in a window speaks of the time before it."""
    rows = [
        replace(row, nvml_util_pct=share)
        for row, share in zip(looks([100.0, 100.0, 0.0, 0.0, 0.0, 0.0]), [99, 99, 50, 0, 0, 0], strict=True)
    ]
    (view,) = gpus_view(run_of(make, record(rows), use()), 102.5, 106.0).devices
    assert (view.copying_pct, view.busy_pct) == (0.0, 0.0)


def test_kernels_and_copies_are_compared_over_the_same_time(make: Any) -> None:
    """A driver that hands out no utilisation for a while, and then tells that of kernels."""
    rows = looks([0.0] * 4) + looks([60.0] * 5, start_s=104.0, nvml_util_pct=60.0)
    (view,) = gpus_view(run_of(make, record(rows), use()), 100.0, 109.0).devices
    assert view.copying_pct == 0.0
    assert view.busy_pct == pytest.approx(60 * 5 / 9)


def test_copies_cannot_be_told_in_a_moment_or_without_gpm(make: Any) -> None:
    run = run_of(make, record(looks([10.0] * 6, nvml_util_pct=70.0)), use())
    (view,) = gpus_view(run, 100.0, 103.0).devices
    assert (view.copying_pct, view.busy_pct) == (None, pytest.approx(10.0))
    rows = [replace(row, busy_source="nvml") for row in looks([10.0] * 6, nvml_util_pct=70.0)]
    (view,) = gpus_view(run_of(make, record(rows), use()), 100.0, 106.0).devices
    assert (view.copying_pct, view.busy_pct, view.busy_source) == (None, pytest.approx(10.0), "nvml")


@pytest.mark.parametrize(
    ("load", "busy_pct", "copying_pct"),
    [("matmul", 99.5, 0.0), ("tiny kernels", 20.8, 0.0), ("copies", 99.0, 0.0), ("uploads", 99.0, 99.0)],
)
def test_loads_of_an_h200(make: Any, tmp_path: Path, load: str, busy_pct: float, copying_pct: float) -> None:
    gpus = ReplayGpus(H200)
    (tmp_path / "outside").mkdir()
    watch = GpuWatch(
        gpus,
        Journal(tmp_path / "outside" / "gpu.jsonl"),
        "r",
        interval_s=0.2,
        clock=gpus.now,
        cpu_clock=float,
    )
    for _ in gpus.looks:
        watch.look({4312})
    watch.finish("over")
    times_s = [look.t for look in gpus.looks if look.load == load]
    run = replace(make.run(), gpu=read_gpu(tmp_path))
    (view,) = gpus_view(run, times_s[0] + 0.2, times_s[-1]).devices
    assert view.busy_pct == pytest.approx(busy_pct, abs=1)
    assert view.copying_pct == pytest.approx(copying_pct, abs=1)


def test_unknown_stays_unknown(make: Any) -> None:
    run = run_of(make, record([GpuReading(101.0, 0)]), use())
    (view,) = gpus_view(run, 100.0, 110.0).devices
    assert (view.busy_pct, view.memory_peak_bytes, view.power_w, view.throttled_frac) == (None,) * 4
    assert (view.covered_s, view.busy_source, view.sharing.shared) == (0, None, None)


def test_the_training_names_its_gpu_whatever_its_number(make: Any) -> None:
    devices = [GpuDevice(n, f"GPU-AAAA-{n}", "A100") for n in range(3)]
    gpu = record(looks([5.0]) + looks([80.0], gpu=2), *devices)
    run = run_of(make, gpu, use("aaaa-2"), use("GPU-aaaa-2", 101.0))
    assert job_uuids(run) == ("aaaa-2", "GPU-aaaa-2")
    found = gpus_view(run, 100.0, 110.0)
    assert [(view.gpu, view.busy_pct) for view in found.devices] == [(2, 80.0)]
    assert found.known_from == "the training named them"
    assert [view.gpu for view in gpus_view(run, 100.0, 110.0, uuids=["GPU-aaaa-0"]).devices] == [0]


def test_without_a_name_process_ids_tell(make: Any) -> None:
    devices = [GpuDevice(n, f"GPU-{n}") for n in range(2)]
    readings = looks([5.0], own_pids=()) + looks([80.0], gpu=1, own_pids=(4312,))
    found = gpus_view(run_of(make, record(readings, *devices)), 100.0, 110.0)
    assert [view.gpu for view in found.devices] == [1]
    assert "processes" in found.known_from


@pytest.mark.parametrize(
    ("gpu", "uses", "why"),
    [
        (GpuRecord(), [], "not looked at"),
        (record(looks([5.0])), [], "lists none of them"),
        (record(looks([5.0]), comparable=False), [], "another PID namespace"),
        (record(looks([5.0])), [use("GPU-other")], "not among those NVML lists"),
        (
            GpuRecord(GpuHeader("s", "r", 0.2, 0.0, 0.0, "cpu", reason="no NVIDIA driver here")),
            [],
            "no NVIDIA driver",
        ),
        (
            record([], missing=(GpuMissing("device", "GPU is lost", 0),), devices=()),
            [],
            "GPU is lost",
        ),
    ],
)
def test_where_no_gpu_is_known_the_reason_is(
    make: Any, gpu: GpuRecord, uses: list[DeviceUse], why: str
) -> None:
    found = gpus_view(run_of(make, gpu, *uses), 100.0, 110.0)
    assert found.devices == ()
    assert why in found.known_from


def test_memory_clocks_and_power(make: Any) -> None:
    rows = [
        GpuReading(101.0, 0, memory_used_bytes=5 * GIB, sm_clock_mhz=1980, throttled_by=(), power_w=1.0,
                   energy_mj_total=1_000_000, own_memory_bytes=4 * GIB, temperature_c=50),
        GpuReading(103.0, 0, memory_used_bytes=9 * GIB, sm_clock_mhz=1200, throttled_by=("power cap",),
                   energy_mj_total=1_800_000, temperature_c=60),
        GpuReading(104.0, 0, memory_used_bytes=7 * GIB, sm_clock_mhz=1100),
        GpuReading(120.0, 0, memory_used_bytes=99 * GIB),
    ]  # fmt: skip
    used = use(allocated_max_bytes=3 * GIB, reserved_max_bytes=4 * GIB, retries=2, ooms=0)
    (view,) = gpus_view(run_of(make, record(rows), use(), used), 100.0, 110.0).devices
    assert (view.memory_peak_bytes, view.own_memory_peak_bytes) == (9 * GIB, 4 * GIB)
    assert (view.sm_clock_median_mhz, view.sm_clock_max_mhz) == (1200.0, 1980)
    assert (view.throttled_frac, view.throttled_by) == (0.5, (("power cap", 0.5),))
    assert view.power_w == pytest.approx(400.0), "from the energy counter, not from the sensor"
    assert view.temperature_max_c == 60
    assert view.allocator is not None
    assert (view.allocator.reserved_max_bytes, view.allocator.retries) == (4 * GIB, 2)


def test_power_without_the_counter(make: Any) -> None:
    rows = [GpuReading(101.0, 0, power_w=100.0), GpuReading(102.0, 0, power_w=300.0)]
    (view,) = gpus_view(run_of(make, record(rows), use()), 100.0, 110.0).devices
    assert view.power_w == 200.0


def sharing(make: Any, per_look: list[dict[str, Any]], processes: int = 1) -> Any:
    rows = [GpuReading(101.0 + n, 0, **look) for n, look in enumerate(per_look)]
    others = [make.training({}, pid=900 + n, devices=(use(),)) for n in range(processes)]
    run = replace(make.run(*others), gpu=record(rows))
    (view,) = gpus_view(run, 100.0, 150.0).devices
    return view.sharing


def test_time_slicing_is_said(make: Any) -> None:
    alone = {"processes": 1, "own_pids": (1,), "foreign_pids": ()}
    beside = {"processes": 2, "own_pids": (1,), "foreign_pids": (7,), "foreign_memory_bytes": GIB}
    found = sharing(make, [alone, beside, beside, beside])
    assert (found.shared, found.pids, found.looks_frac) == (True, (7,), 0.75)
    assert found.memory_peak_bytes == GIB
    assert found.text == TIME_SLICING
    assert sharing(make, [alone, alone]).shared is False
    assert sharing(make, [alone, beside, alone]).shared is False, "a process of the run that just began"


def test_in_a_container_the_number_of_processes_tells(make: Any) -> None:
    assert sharing(make, [{"processes": 2}] * 3, processes=2).shared is False
    more = sharing(make, [{"processes": 3}] * 3, processes=2)
    assert (more.shared, more.by_count) == (True, True)
    assert more.text.startswith("1 more process(es)")
    hidden = sharing(make, [{"processes": 0}] * 3)
    assert (hidden.shared, hidden.text) == (None, HIDDEN)
    assert sharing(make, [{}]).shared is None


def test_we_are_not_foreign_to_ourselves(make: Any) -> None:
    """The run named this GPU, yet NVML lists only others on it: its process IDs are not ours."""
    masked = {"processes": 1, "own_pids": (), "foreign_pids": (50_000,)}
    found = sharing(make, [masked] * 3)
    assert (found.shared, found.by_count, found.pids) == (False, True, ())


def test_what_is_missing_is_handed_on(make: Any) -> None:
    missing = (GpuMissing("sm_active_pct", "no GPM", 0), GpuMissing("power_w", "other card", 1))
    run = run_of(make, record(looks([5.0]), missing=missing), use())
    (view,) = gpus_view(run, 100.0, 110.0).devices
    assert view.missing == missing[:1]


def test_a_slice_is_unverified_and_so_is_its_gpu(make: Any) -> None:
    devices = [
        GpuDevice(0, UUID),
        GpuDevice(1, "MIG-bbbb", mig=True, parent_uuid=UUID),
        GpuDevice(2, "GPU-c"),
    ]
    run = run_of(make, record(looks([5.0]), *devices), use(), use("GPU-bbbb"), use("GPU-c"))
    assert [view.unverified for view in gpus_view(run, 100.0, 110.0).devices] == [True, True, False]


def test_uuids_compare_without_their_prefix() -> None:
    assert bare_uuid("GPU-AB") == bare_uuid("MIG-ab") == bare_uuid(" ab") == "ab"


def test_cost_of_the_watcher() -> None:
    costs = (GpuCost(102.0, 10, 0.010, 0.020, 0.50), GpuCost(202.0, 510, 0.260, 0.5, 1.00))
    found = watcher_cost(GpuRecord(costs=costs))
    assert found is not None
    assert (found.looks, found.cpu_ms_per_look) == (510, pytest.approx(0.5))
    assert (found.gpu_cpu_pct, found.watcher_cpu_pct) == (pytest.approx(0.25), pytest.approx(0.5))
    assert watcher_cost(GpuRecord(costs=costs[:1])) is None
