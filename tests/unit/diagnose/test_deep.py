"""Figures of a deep window, from intervals made by hand."""

from __future__ import annotations

import pytest

from stoker.diagnose.deep import (
    by_phase,
    copy_kind,
    gaps,
    is_collective,
    union,
    use_by_device,
    usual_busy_frac,
    without,
    without_behind,
)
from stoker.model.deep import Activity, DeepNote, DeepTrace, DeviceEvent, HostSpan

MS = 1e-3
HOST = (
    HostSpan(-0.1, 0.2, "backward"),
    HostSpan(0.2, 0.5, "data"),
    HostSpan(0.5, 1.2, "forward"),
)


def kernel(start: float, end: float, **more: object) -> DeviceEvent:
    settings = {"device": 0, "stream": 7, "name": "gemm", **more}
    return DeviceEvent(Activity.KERNEL, start, end, **settings)  # type: ignore[arg-type]


def copy(start: float, end: float, name: str, moved: int | None = None) -> DeviceEvent:
    return DeviceEvent(Activity.COPY, start, end, 0, 7, name, moved)


def trace(*events: DeviceEvent, ticks: int = 4, details: bool = True) -> DeepTrace:
    note = DeepNote("taken", "asked", start_s=50.0, end_s=51.0, ticks=ticks, details=details)
    ends = tuple(number / ticks for number in range(ticks + 1))
    return DeepTrace(note, tuple(sorted(events, key=lambda event: event.start_s)), HOST, ends)


def only(found: DeepTrace):
    (use,) = use_by_device(found)
    return use


def test_union_counts_what_overlaps_once() -> None:
    merged = union([(0.5, 0.7), (0.1, 0.3), (0.2, 0.4), (0.9, 1.5), (-1.0, 0.05)], (0.0, 1.0))
    assert merged == [(0.0, 0.05), (0.1, 0.4), (0.5, 0.7), (0.9, 1.0)]
    assert without(merged, (0.0, 1.0)) == [(0.05, 0.1), (0.4, 0.5), (0.7, 0.9)]
    assert without([], (0.0, 1.0)) == [(0.0, 1.0)]


def test_two_streams_at_once_are_busy_once() -> None:
    use = only(trace(kernel(0.0, 0.4), kernel(0.2, 0.6, stream=13), kernel(0.9, 1.3, stream=13)))
    assert use.busy_frac == pytest.approx(0.7)
    assert [(stream.stream, round(stream.busy_frac, 9)) for stream in use.streams] == [(13, 0.5), (7, 0.4)]


def test_devices_are_kept_apart() -> None:
    first, second = use_by_device(trace(kernel(0.0, 0.4), kernel(0.0, 0.8, device=1)))
    assert (first.device, first.busy_frac) == (0, pytest.approx(0.4))
    assert (second.device, second.busy_frac) == (1, pytest.approx(0.8))


def test_what_was_queued_before_is_not_held_against_it() -> None:
    """Its first event begins late: until then it ran what was launched before anybody looked."""
    use = only(trace(kernel(0.5, 0.75)))
    assert use.seconds == pytest.approx(0.5)
    assert use.busy_frac == pytest.approx(0.5)
    seen_before = only(trace(kernel(-0.05, -0.04), kernel(0.5, 0.75)))
    assert seen_before.busy_frac == pytest.approx(0.25)


def test_gaps_go_to_the_phase_the_host_was_in() -> None:
    use = only(trace(kernel(0.0, 0.1), kernel(0.4, 0.9)))
    assert use.gaps.total_s == pytest.approx(0.4)
    assert use.gaps.by_phase_s == pytest.approx({"data": 0.2, "backward": 0.1, "forward": 0.1})
    assert next(iter(use.gaps.by_phase_s)) == "data"
    assert use.gaps.longest_s == pytest.approx(0.3)


def test_gaps_where_the_host_was_not_seen() -> None:
    assert by_phase([(1.1, 1.5)], HOST) == pytest.approx({"forward": 0.1, "unknown": 0.3})
    assert by_phase([(0.0, 1.0)], []) == {"unknown": 1.0}
    assert by_phase([(-0.5, 0.0)], HOST) == pytest.approx({"backward": 0.1, "unknown": 0.4})


def test_a_long_gap_ends_in_a_launch_of_the_phase_after_it() -> None:
    host = [HostSpan(0.0, 0.02, "data"), HostSpan(0.02, 0.05, "forward")]
    found = gaps([(0.0205, 0.03), (0.0301, 0.04)], (0.0, 0.05), host)
    assert found.by_phase_s["forward"] == pytest.approx(0.0106)
    assert found.long_by_phase_s == {"data": pytest.approx(0.02), "forward": pytest.approx(0.01)}
    early = gaps([(0.0205, 0.05)], (0.0, 0.05), host)
    assert early.long_by_phase_s == {"data": pytest.approx(0.02)}


def test_launch_gaps_and_real_gaps() -> None:
    found = gaps([(0.0, 0.1), (0.1 + 8e-6, 0.2), (0.5, 1.0)], (0.0, 1.0), HOST)
    assert (found.count, found.launch_count) == (2, 1)
    assert found.launch_s == pytest.approx(8e-6)
    assert found.total_s - found.launch_s == pytest.approx(0.3)


def test_kernels_and_their_size() -> None:
    use = only(trace(kernel(0.0, 4e-6), kernel(0.1, 0.1 + 6e-6), kernel(0.2, 0.2 + 90e-6), ticks=2))
    assert (use.kernels, use.kernels_per_tick) == (3, 1.5)
    assert use.median_kernel_us == pytest.approx(6.0)
    assert use.short_kernel_frac == pytest.approx(0.1)
    assert use.top == (("gemm", 3, pytest.approx(100e-6)),)


def test_usual_busyness_is_of_the_tick_without_the_profiler() -> None:
    use = only(trace(kernel(0.0, 0.1), kernel(0.5, 0.6), ticks=2))
    assert use.busy_per_tick_s == pytest.approx(0.1)
    assert usual_busy_frac(use, 0.4) == pytest.approx(0.25)
    assert usual_busy_frac(use, 0.05) == 1.0
    assert usual_busy_frac(use, None) is None


def test_what_counters_call_busy_behind_each_kernel_is_left_out() -> None:
    """A thousand kernels of 2 us a tick: the counters say 3 for each."""
    kernels = [kernel(n * 1e-4, n * 1e-4 + 2e-6) for n in range(2000)]
    use = only(trace(*kernels, ticks=2))
    assert use.gaps.behind_s == pytest.approx(2e-3)
    assert use.busy_per_tick_s == pytest.approx(2e-3)
    assert without_behind(0.030, use, 0.1) == pytest.approx(0.02), "as many as the work of a tick says"
    assert without_behind(0.045, use, 0.1) == pytest.approx(0.03), "and no more than the gaps"
    assert without_behind(0.018, use, 0.1) == 0.018, "never up"
    assert without_behind(0.030, use, None) == 0.030


def test_copies_by_direction_and_memory() -> None:
    pageable, pinned = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"
    use = only(
        trace(
            copy(0.0, 0.1, pageable, 1000),
            copy(0.2, 0.3, pageable, 500),
            copy(0.4, 0.41, pinned),
            kernel(0.5, 0.6),
        )
    )
    first, second = use.copies
    assert (first.direction, first.memory, first.count, first.moved_bytes) == ("HtoD", "pageable", 2, 1500)
    assert (second.memory, second.moved_bytes) == ("pinned", None)
    assert (use.busy_frac, use.kernel_busy_frac) == (pytest.approx(0.31), pytest.approx(0.1))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("HtoD", "pageable")),
        ("Memcpy DtoH (Device -> Pinned)", ("DtoH", "pinned")),
        ("Memcpy DtoD (Device -> Device)", ("DtoD", "device")),
        ("Memcpy PtoP", ("PtoP", "unknown")),
        ("Memcpy", ("unknown", "unknown")),
    ],
)
def test_kinds_of_copies(name: str, kind: tuple[str, str]) -> None:
    assert copy_kind(name) == kind


def test_collectives_and_what_of_them_is_exposed() -> None:
    reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    use = only(trace(kernel(0.0, 0.4), kernel(0.3, 0.6, name=reduce, stream=20)))
    assert use.collectives.count == 1
    assert use.collectives.seconds == pytest.approx(0.3)
    assert use.collectives.exposed_s == pytest.approx(0.2)
    assert not is_collective("void cutlass::Kernel")


def test_real_work_is_busy_time_weighted_by_breadth() -> None:
    broad = [kernel(n / 100, n / 100 + 3 * MS, blocks_per_sm=4.0, occupancy_pct=50) for n in range(50)]
    narrow = [
        kernel(0.5 + n / 100, 0.5 + n / 100 + MS, blocks_per_sm=0.1, occupancy_pct=10) for n in range(50)
    ]
    use = only(trace(*broad, *narrow))
    assert use.kernel_busy_frac == pytest.approx(0.2)
    assert use.real_work.frac == pytest.approx(0.2 * (3 * 1.0 + 1 * 0.1) / 4)
    assert use.real_work.occupancy_pct == pytest.approx(40.0)


def test_real_work_unknown_is_none_with_a_reason() -> None:
    assert only(trace(kernel(0.0, 0.4), details=False)).real_work.frac is None
    few = only(trace(kernel(0.0, 0.4, blocks_per_sm=1.0))).real_work
    assert (few.frac, few.reason) == (None, "only 1 kernels were looked at")


def test_no_event_at_all() -> None:
    assert use_by_device(trace()) == ()
