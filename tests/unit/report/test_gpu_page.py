"""Whole pages of runs on a GPU that never happened, compared with texts under tests/golden."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose import summary as summary_module
from stoker.diagnose.summary import Summary, summarise
from stoker.model.deep import Activity, DeepNote, DeepTrace, DeviceEvent, HostSpan
from stoker.model.gpu import GpuHeader, GpuMissing, GpuRecord
from stoker.model.record import Mark
from stoker.report import markdown, run_json, run_page, text

Make = Any
Golden = Callable[[str, str], None]

ENV = {"env": 0.518, "infer": 0.06, "forward": 0.13, "loss": 0.02, "backward": 0.16, "optim": 0.07,
       "sync": 0.04, "other": 0.002}  # fmt: skip
ENV_LEAD = {
    "env": (2.072, 2.072, 0.0, 0.0), "infer": (0.24, 0.0, 0.2, 0.0), "forward": (0.52, 0.0, 0.4, 0.0),
    "loss": (0.08, 0.0, 0.05, 0.0), "backward": (0.64, 0.0, 0.3, 0.0), "optim": (0.28, 0.0, 0.2, 0.0),
    "sync": (0.16, 0.0, 0.0, 0.0), "other": (0.008, 0.006, 0.0, 0.0),
}  # fmt: skip
SMALL = {"forward": 0.36, "loss": 0.02, "backward": 0.47, "optim": 0.13, "other": 0.02}
SMALL_LEAD = {name: (share, 0.0, share, 0.0) for name, share in SMALL.items()}
SMALL_LEAD["other"] = (0.02, 0.018, 0.0, 0.0)
DATA = {
    "data": 0.45,
    "h2d": 0.03,
    "forward": 0.17,
    "loss": 0.01,
    "backward": 0.28,
    "optim": 0.04,
    "other": 0.02,
}
LINES = {("env", "train.py:31 step"): 400, ("backward", "train.py:61 update"): 90}


def gpm(make: Make, cards: Any) -> Any:
    gpu = cards.record(cards.readings(34.1, **cards.GPM_FIGURES))
    return cards.run(make, ENV, gpu, cards.lead(ENV_LEAD), env_steps_per_tick=1.0, sampled=make.looks(LINES))


def launch_bound(make: Make, cards: Any) -> Any:
    gpu = cards.record(cards.readings(20.4, **{**cards.GPM_FIGURES, "sm_active_pct": 1.2}))
    lines = {("forward", "train.py:20 forward"): 300, ("backward", "train.py:61 update"): 300}
    return cards.run(make, SMALL, gpu, cards.lead(SMALL_LEAD, by="asked"), sampled=make.looks(lines))


def shared_card(make: Make, cards: Any) -> Any:
    seen = {"processes": 2, "foreign_pids": (99,), "foreign_memory_bytes": 5 * 2**30, "sm_active_pct": 40.0}
    gpu = cards.record(cards.readings(93.6, **seen))
    return cards.run(make, ENV, gpu, cards.lead(ENV_LEAD), sampled=make.looks(LINES))


def nvml_only(make: Make, cards: Any) -> Any:
    """A 4090, too short for a lead; a deep window was taken by itself."""
    missing = tuple(
        GpuMissing(name, cards.NO_GPM, 0)
        for name in ("sm_active_pct", "sm_occupancy_pct", "tensor_pct", "dram_pct")
    )
    rows = cards.readings(49.0, source="nvml", throttled_by=("power cap",), sm_clock_mhz=2520)
    gpu = cards.record(rows, cards.RTX_4090, missing=missing)
    note = DeepNote("taken", "auto", start_s=1010.0, end_s=1011.0, ticks=20, details=True, file="x.tsv")
    lines = make.looks({("data", "train.py:40 main"): 300, ("backward", "train.py:44 main"): 200})
    workers = {"loaders": (make.loader(),), "workers": (make.worker(0), make.worker(1))}
    return cards.run(make, DATA, gpu, None, deep=note, sampled=lines, **workers)


def trace(note: DeepNote) -> DeepTrace:
    """20 ticks of 50 ms: 22 ms without a kernel, then 28 ms of them with small gaps."""
    events, host = [], []
    for tick in range(20):
        start = 0.05 * tick
        host += [HostSpan(start, start + 0.0215, "data"), HostSpan(start + 0.0215, start + 0.023, "h2d")]
        host += [
            HostSpan(start + 0.023, start + 0.033, "forward"),
            HostSpan(start + 0.033, start + 0.05, "backward"),
        ]
        for n in range(90):
            begun = start + 0.023 + 0.0003 * n
            events.append(DeviceEvent(Activity.KERNEL, begun, begun + 0.00026, 0, 7, "gemm", None, 0.6, 40))
    ends = tuple(0.05 * (tick + 1) for tick in range(20))
    return DeepTrace(note, tuple(events), tuple(host), ends)


def read(run: Any, monkeypatch: pytest.MonkeyPatch) -> Summary:
    monkeypatch.setattr(summary_module, "read_trace", lambda folder, note: trace(note))
    return summarise(run)


def two_ranks(make: Make, cards: Any) -> Any:
    """Rank 1 loads for longer; rank 0 comes to backward 45 ms before it, and its GPU spins there."""
    early = {"data": 0.1, "forward": 0.2, "backward": 0.65, "optim": 0.05}
    late = {"data": 0.55, "forward": 0.2, "backward": 0.2, "optim": 0.05}
    second = replace(cards.H200, gpu=1, uuid="GPU-second")
    spins, waits = (
        cards.readings(97.0, 100, sm_active_pct=50.0),
        cards.readings(47.0, 101, sm_active_pct=30.0),
    )
    gpu = cards.record(spins + tuple(replace(row, gpu=1) for row in waits), cards.H200, second)
    settings = {"ticks_per_s": 10.0, "torch": "2.11.0+cu128", "world": 2}
    leads = [
        cards.lead({"data": (0.4, 0.1, 0.0, 0.0), "forward": (0.8, 0.0, 0.0, 0.0)}),
        cards.lead({"data": (2.2, 2.0, 0.0, 0.0), "forward": (0.8, 0.0, 0.1, 0.0)}),
    ]
    ranks = [
        make.training(shares, pid=100 + n, rank=n, devices=(cards.use(uuid=uuid),), lead=leads[n], **settings)
        for n, (shares, uuid) in enumerate(((early, cards.UUID), (late, "second")))
    ]
    command = ("torchrun", "--nproc_per_node=2", "/long/way/to/train.py")
    return replace(make.run(*ranks, command=command), gpu=gpu)


RUNS = [gpm, launch_bound, shared_card, nvml_only, two_ranks]


@pytest.mark.parametrize("build", RUNS)
def test_page(make: Make, cards: Any, build: Any, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    page = run_page.build(read(build(make, cards), monkeypatch))
    shown = text.plain(page)
    assert max(map(len, shown.splitlines())) <= 80
    golden(f"gpu_{build.__name__}.txt", shown)
    golden(f"gpu_{build.__name__}.md", markdown.render(page))


def sentence(run: Any) -> str:
    return str(json.loads(run_json.render(summarise(run)))["sentence"])


def page_of(run: Any) -> str:
    return " ".join(text.plain(run_page.build(summarise(run))).split())


def test_a_hidden_wait_is_no_cause(make: Make, cards: Any) -> None:
    shares = {"data": 0.41, "forward": 0.25, "backward": 0.3, "optim": 0.04}
    found = {name: (share, 0.0, 0.0, 0.0) for name, share in shares.items()}
    gpu = cards.record(cards.readings(97.0, **{**cards.GPM_FIGURES, "sm_active_pct": 80.0}))
    run = cards.run(make, shares, gpu, cards.lead(found))
    assert sentence(run).startswith("GPU busy 97 %: nothing to gain from the host side. ")
    assert "data 41.0 % 0.0 % hidden: the GPU works meanwhile" in page_of(run)


def test_busy_with_little_work_is_not_healthy(make: Make, cards: Any) -> None:
    gpu = cards.record(cards.readings(97.0, **{**cards.GPM_FIGURES, "sm_active_pct": 12.0}))
    run = cards.run(make, SMALL, gpu, cards.lead(SMALL_LEAD))
    assert sentence(run).startswith("GPU busy 97 %, but real work only 12 %")
    assert "nothing to gain" not in sentence(run)
    gpu = cards.record(cards.readings(60.0, **{**cards.GPM_FIGURES, "sm_active_pct": 12.0}))
    assert "real work is 12 %" in sentence(cards.run(make, SMALL, gpu, cards.lead(SMALL_LEAD)))


def test_a_shared_card_is_never_called_healthy(make: Make, cards: Any) -> None:
    found = {name: (share, 0.0, 0.0, 0.0) for name, share in SMALL.items()}
    rows = cards.readings(99.0, processes=2, foreign_pids=(99,))
    run = cards.run(make, SMALL, cards.record(rows), cards.lead(found))
    assert "nothing to gain" not in sentence(run)
    assert "another process computes on it" in sentence(run)
    two = cards.run(make, SMALL, cards.record(cards.readings(99.0)), cards.lead(found))
    helper = make.training(SMALL, pid=9, devices=(cards.use(),))
    assert "nothing to gain" in sentence(two)
    together = replace(two, processes=(*two.processes, replace(helper, seconds=())))
    assert "by 2 processes of this run together" in sentence(together)


def test_a_card_that_others_fill_still_names_this_trainings_own_wait(make: Make, cards: Any) -> None:
    rows = cards.readings(100.0, processes=3, foreign_pids=(98, 99))
    said = sentence(cards.run(make, DATA, cards.record(rows), cards.lead({"data": (1.0, 0.8, 0.0, 0.0)})))
    assert "but 2 other processes compute on it" in said
    assert "nothing to do for 36 % of the time, mostly while it waits for data" in said
    unread = cards.record(cards.readings(None, processes=2, foreign_pids=(99,)))
    said = sentence(cards.run(make, DATA, unread, None))
    assert said.startswith("Another process computes on the GPU: they take turns")


def test_unknown_is_named_first_only_where_it_is_most_of_it(make: Make, cards: Any) -> None:
    gpu = cards.record(cards.readings(30.0))
    some = cards.lead({"data": (0.45, 0.2, 0.0, 0.25), "other": (0.02, 0.02, 0.0, 0.0)})
    assert "not explained: it ran dry somewhere in data" in sentence(cards.run(make, DATA, gpu, some))
    most = cards.lead({"data": (0.45, 0.2, 0.0, 0.25), "forward": (0.2, 0.15, 0.0, 0.0)})
    gpu = cards.record(cards.readings(45.0))
    said = sentence(cards.run(make, DATA, gpu, most))
    assert said.startswith("The GPU is idle 55 % of the time, 20 % while the training thread waits for data.")
    assert "Another 13 % while the thread calls the model" in said


def test_a_rollout_without_an_optimizer_says_so_first(make: Make, cards: Any) -> None:
    gpu = cards.record(cards.readings(12.0))
    record = make.rollouts({"env": 0.8, "infer": 0.2}, torch="2.11", devices=(cards.use(),))
    said = sentence(replace(make.run(record), gpu=gpu))
    assert said.startswith("No optimizer step was seen. ")
    assert "The GPU is idle 88 % of the time" in said


def test_without_counters_the_lead_alone_speaks(make: Make, cards: Any) -> None:
    header = GpuHeader("stoker.gpu/1", "id", 0.2, 0.0, 0.0, "cpu", reason="NVML does not answer (no library)")
    run = cards.run(make, ENV, GpuRecord(header), cards.lead(ENV_LEAD), sampled=make.looks(LINES))
    assert sentence(run).startswith("The GPU has nothing to do for at least 52 % of the time, mostly while")
    assert "counters were not read: NVML does not answer (no library)" in page_of(run)


def test_without_a_cause_the_hosts_time_is_said_too(make: Make, cards: Any) -> None:
    gpu = cards.record(cards.readings(49.0, source="nvml"), cards.RTX_4090)
    run = cards.run(make, DATA, gpu, None)
    assert sentence(run).startswith("The GPU is idle 51 % of the time; most of it is not explained")
    assert "45 % of the training time goes to waiting for data" in sentence(run)
    shown = page_of(run)
    assert "NVIDIA GeForce RTX 4090: this card has no GPM (it came with Hopper). So real work is not" in shown
    assert "which phase leaves the GPU idle was not measured: no iteration was looked at" in shown


def test_what_a_container_and_a_mig_slice_leave_open_is_said(make: Make, cards: Any) -> None:
    slice_ = replace(cards.H200, mig=True, parent_uuid="GPU-whole")
    rows = cards.readings(50.0, processes=0, own_pids=None, foreign_pids=None)
    run = cards.run(make, ENV, cards.record(rows, slice_, comparable=False), cards.lead(ENV_LEAD))
    assert "the driver names no process on this GPU (a container)" in page_of(run)
    assert "never tried (unverified)" in page_of(run)


def test_streams_fields_and_coverage_that_are_missing_are_said(make: Make, cards: Any) -> None:
    missing = tuple(GpuMissing(name, "Not Supported", 0) for name in ("power_w", "temperature_c"))
    gpu = cards.record(cards.readings(50.0, sm_active_pct=20.0)[:20], missing=missing)
    run = cards.run(make, ENV, gpu, cards.lead(ENV_LEAD, streams_seen=3, stream=7))
    shown = page_of(run)
    assert "one of 3 CUDA streams, the busiest that was looked at;" in shown
    assert "CUDA streams, the default one;" in page_of(
        cards.run(make, ENV, gpu, cards.lead(ENV_LEAD, streams_seen=2))
    )
    assert "GPU: power_w, temperature_c not measured: Not Supported" in shown
    assert "the GPU's counters cover 19.0 s of the 60.0 s" in shown


def test_without_a_deep_window_it_is_said_what_nvml_counts_too_much(make: Make, cards: Any) -> None:
    missing = (GpuMissing("sm_active_pct", cards.NO_GPM, 0),)
    gpu = cards.record(cards.readings(49.0, source="nvml"), cards.RTX_4090, missing=missing)
    shown = page_of(cards.run(make, DATA, gpu, None))
    assert "the bar has only busy and idle" in shown
    assert "tens of thousands of small kernels a second up to 8 too many" in shown


def test_a_gpu_torch_that_used_no_gpu_has_no_block(make: Make, cards: Any) -> None:
    run = cards.run(make, DATA, cards.record(cards.readings(0.0, own_pids=())), None, devices=())
    shown = page_of(run)
    assert "What the GPU does" not in shown
    assert "no process of the run named a GPU" in shown


@pytest.mark.parametrize("uses", [(), (None,)], ids=["nothing named", "no UUID"])
def test_a_gpu_that_was_not_named_is_found_by_process_id(make: Make, cards: Any, uses: Any) -> None:
    named = tuple(cards.use(uuid=uuid) for uuid in uses)
    second = replace(cards.H200, gpu=1, uuid="GPU-second")
    rows = cards.readings(60.0) + tuple(replace(row, gpu=1) for row in cards.readings(5.0, pid=7))
    run = cards.run(make, ENV, cards.record(rows, cards.H200, second), None, devices=named)
    (trainer,) = json.loads(run_json.render(summarise(run)))["trainers"]
    assert (trainer["gpu"]["uuid"], trainer["gpu"]["busy_pct"]) == (cards.UUID, 60.0)
    elsewhere = cards.record(cards.readings(60.0, pid=8), cards.H200)
    (trainer,) = json.loads(run_json.render(summarise(replace(run, gpu=elsewhere))))["trainers"]
    assert (trainer["gpu"] is None) == (not uses)


def test_every_rank_and_gpu_has_a_row(make: Make, cards: Any) -> None:
    second = replace(cards.H200, gpu=1, uuid="GPU-second")
    rows = cards.readings(60.0) + tuple(replace(row, gpu=1, busy_pct=30.0) for row in cards.readings(60.0))
    run = cards.run(make, ENV, cards.record(rows, cards.H200, second), cards.lead(ENV_LEAD), rank=0)
    other = make.training(DATA, pid=77, rank=1, torch="2.11", devices=(cards.use(uuid="second"),))
    shown = text.plain(run_page.build(summarise(replace(run, processes=(*run.processes, other)))))
    table = shown.split("GPUs of all training processes")[1]
    assert "60.0 %" in table.splitlines()[2]
    row = "1 77 1 30.0 % 9.0 % ? 70.0 % unknown 55.0 %"
    assert table.splitlines()[3].split() == row.split()
    assert "What the GPUs of 2 ranks do, on average (2 × NVIDIA H200)" in shown


def test_a_bar_of_all_ranks_without_their_waiting_says_so(make: Make, cards: Any) -> None:
    run = two_ranks(make, cards)
    untold = replace(run, processes=tuple(replace(one, ticks=()) for one in run.processes))
    shown = page_of(untold)
    assert "What the GPUs of 2 ranks do, on average" in shown
    assert "how long ranks wait for each other is not in this bar: too few ticks" in shown
    assert "waiting for other ranks" not in shown
    assert "of it waiting" not in shown
    told = json.loads(run_json.render(summarise(run)))["gpus_together"]
    assert sum(part["pct"] for part in told["parts"]) + told["waiting_pct"] == pytest.approx(100)
    assert [one["rank"] for one in told["ranks"]] == [0, 1]


def test_the_gpu_whose_lead_was_taken_is_the_main_one(make: Make, cards: Any) -> None:
    second = replace(cards.H200, gpu=1, uuid="GPU-second")
    rows = cards.readings(20.0) + tuple(replace(row, gpu=1, busy_pct=90.0) for row in cards.readings(60.0))
    uses = (cards.use(), cards.use(1, "second"))
    run = cards.run(make, ENV, cards.record(rows, cards.H200, second), cards.lead(ENV_LEAD), devices=uses)
    (trainer,) = json.loads(run_json.render(summarise(run)))["trainers"]
    assert (trainer["gpu"]["index"], trainer["gpu"]["busy_pct"]) == (0, 20.0)
    (rest,) = trainer["other_gpus"]
    assert (rest["index"], rest["busy_pct"], rest["unknown_idle_pct"]) == (1, 90.0, 10.0)
    assert rest["unknown_reason"] == "the idle time by phase was looked at on GPU 0 alone"


def test_json(make: Make, cards: Any) -> None:
    shown = json.loads(run_json.render(summarise(gpm(make, cards))))
    gpu = shown["trainers"][0]["gpu"]
    assert sum(part["pct"] for part in gpu["parts"]) == pytest.approx(100)
    assert gpu["idle_by_phase_pct"]["env"] == pytest.approx(51.8)
    assert gpu["launching_pct"] == pytest.approx(13.95, abs=0.1)
    assert gpu["unknown_idle_pct"] == pytest.approx(0)
    assert (gpu["busy_pct"], gpu["busy_source"]) == (pytest.approx(34.1), "gpm")
    assert (gpu["real_work_pct"], gpu["real_work_source"]) == (pytest.approx(9.4), "gpm")
    assert gpu["counters"]["memory_total_bytes"] == 141 * 2**30
    assert gpu["lead"]["by"] == "events"
    assert shown["gpu_watcher"]["cost"]["looks"] == 310


def test_counters_between_the_parts_of_the_window_do_not_count(make: Make, cards: Any) -> None:
    """An evaluation in the middle: the GPU is busy then, and that is not training."""
    gpu = cards.record(cards.readings(40.0))
    rows = tuple(replace(r, busy_pct=100.0) if 1023 < r.t <= 1043 else r for r in gpu.readings)
    run = cards.run(make, ENV, replace(gpu, readings=rows), cards.lead(ENV_LEAD))
    (record,) = run.processes
    sums = [second.sums for second in record.seconds]
    marks = (*record.marks, Mark("eval", sums[20]), Mark("train", sums[40]))
    main = summarise(replace(run, processes=(replace(record, marks=marks),))).main
    assert main is not None
    assert main.gpus.main is not None
    assert main.gpus.main.budget.busy_pct == pytest.approx(40.0)


def test_text_from_outside_is_shown_and_not_obeyed(make: Make, cards: Any) -> None:
    nasty = "\x1b[2J[bold]x[/bold] </script>\u202e"
    card = replace(cards.RTX_4090, name=nasty, gpm_reason=nasty)
    missing = (GpuMissing(nasty, nasty + "!", 0),)
    rows = cards.readings(50.0, source=nasty, throttled_by=(nasty,))
    run = cards.run(make, ENV, cards.record(rows, card, missing=missing), cards.lead(ENV_LEAD))
    summary = summarise(run)
    page = run_page.build(summary)
    for shown in (text.plain(page), markdown.render(page), run_json.render(summary)):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "</script>" not in markdown.render(page)
