"""The deep window on a real GPU: it is taken, it is right, it is gone after, and the training never knows.

Speeds before and after go into the JSON file that STOKER_DEEP_RESULTS names; none is asserted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from stoker.diagnose.deep import DeviceUse, use_by_device, usual_busy_frac
from stoker.diagnose.window import spans, training_window
from stoker.launch import injection
from stoker.model.record import ProcessRecord
from stoker.model.run import RunInfo
from stoker.store import folder as folders
from stoker.store.deep_files import read_trace
from stoker.store.reading import load

pytestmark = pytest.mark.gpu

SCRIPT = Path(__file__).parent / "scripts" / "deep_loop.py"
STEPS = {"launch": 2000, "conv": 700, "compiled": 3500, "reduce": 6000, "graph": 14000}
SHORTER = 1400


@dataclass(frozen=True)
class Done:
    out: str
    folder: Path
    record: ProcessRecord
    util: list[tuple[float, float]]
    """What NVML said meanwhile: time, percent."""

    @property
    def use(self) -> DeviceUse:
        trace = read_trace(self.folder, self.record.deep)
        assert trace is not None
        (use,) = use_by_device(trace)
        return use

    def usual_util_frac(self) -> float:
        """Over the train stage, half a second away from its edges."""
        train = [(span.start.t_s, span.end.t_s) for span in spans(self.record) if span.stage == "train"]
        inside = [pct for t, pct in self.util if any(a + 1.0 < t < b - 0.5 for a, b in train)]
        assert len(inside) >= 5, "too short a run to compare"
        return statistics.fmean(inside) / 100

    def tick_ms(self) -> tuple[float, float]:
        """Median tick before the window and after it."""
        (began,) = [span.start.t_s for span in spans(self.record) if span.stage == "deep"]
        ticks = self.record.ticks
        before = [tick.duration_s for tick in ticks if tick.end_s <= began and tick.end_s > began - 1.5]
        after = [tick.duration_s for tick in ticks if tick.end_s > began]
        return 1e3 * statistics.median(before), 1e3 * statistics.median(after)


def plain(kind: str, steps: int) -> str:
    """Its losses without Stoker. `make gpu-test` keeps them: there they are found before the tests that have
    the card for themselves."""
    known = Path(os.environ.get("STOKER_TEST_KEPT", os.devnull)) / f"{kind}-{steps}"
    if known.is_file():
        return known.read_text()
    command = [sys.executable, str(SCRIPT), kind, str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = done.stdout.splitlines()[-1]
    if known.parent.is_dir():
        known.write_text(found)
    return found


@pytest.mark.parametrize("kind", ["launch", "conv", "compiled"])
def test_the_script_itself_does_the_same_each_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = plain(kind, STEPS[kind])
    monkeypatch.delenv("STOKER_TEST_KEPT", raising=False)
    assert plain(kind, STEPS[kind]) == first


def watched(base: Path, kind: str, steps: int, mode: str = "asked") -> Done:
    words = [sys.executable, str(SCRIPT), kind, str(steps)]
    folder = folders.create(words, base)
    folders.write_info(
        folder, RunInfo(folder.name, tuple(words), str(base), time.time(), time.perf_counter())
    )
    env = injection.environment(os.environ, folder, folder.name, [], mode)
    with Util() as util:
        done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=base)
    assert done.returncode == 0, done.stderr
    assert "profiler_start" not in done.stderr
    (record,) = [process for process in load(folder).processes if process.last and process.last.ticks]
    assert not record.hook_failures
    return Done(done.stdout.splitlines()[-1], folder, record, util.seen)


class Util(threading.Thread):
    """`utilization.gpu` ten times a second, beside the run."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[float, float]] = []
        self.over = threading.Event()

    def __enter__(self) -> Util:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def run(self) -> None:
        pynvml = pytest.importorskip("pynvml")
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        while not self.over.wait(0.1):
            self.seen.append((time.perf_counter(), pynvml.nvmlDeviceGetUtilizationRates(handle).gpu))


def keep(name: str, **figures: object) -> None:
    path = os.environ.get("STOKER_DEEP_RESULTS")
    if path:
        known = json.loads(Path(path).read_text()) if Path(path).exists() else {}
        Path(path).write_text(json.dumps({**known, name: figures}, indent=1) + "\n")


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["launch", "conv", "compiled"])
def test_a_window_is_taken_and_nothing_else_changes(tmp_path: Path, kind: str) -> None:
    expected = plain(kind, STEPS[kind])
    done = watched(tmp_path, kind, STEPS[kind])
    assert done.out == expected
    note = done.record.deep
    assert note.taken, note.why
    use, window = done.use, training_window(done.record)
    usual = usual_busy_frac(use, window.seconds / window.content.ticks)
    before_ms, after_ms = done.tick_ms()
    keep(
        kind,
        torch=version("torch"),
        window_s=note.end_s - note.start_s,
        ticks=note.ticks,
        events=note.events,
        clock_us=note.clock_us,
        stall_s=note.stall_s,
        file_bytes=(done.folder / "inside" / note.file).stat().st_size,
        busy_frac=use.busy_frac,
        usual_busy_frac=usual,
        nvml_frac=done.usual_util_frac(),
        real_work=use.real_work.frac,
        real_work_reason=use.real_work.reason,
        occupancy_pct=use.real_work.occupancy_pct,
        kernels_per_tick=use.kernels_per_tick,
        median_kernel_us=use.median_kernel_us,
        short_kernel_frac=use.short_kernel_frac,
        gaps_by_phase_s=use.gaps.by_phase_s,
        launch_gaps_s=use.gaps.launch_s,
        tick_before_ms=before_ms,
        tick_after_ms=after_ms,
    )
    assert 0.9 < note.end_s - note.start_s < 3.0
    assert note.stall_s["teardown"] is not None, "CUPTI was not seen to go"
    assert use.kernels > 100
    assert use.busy_frac * use.seconds + use.gaps.total_s == pytest.approx(use.seconds, rel=1e-6)
    assert use.gaps.by_phase_s.get("unknown", 0.0) < 0.02 * use.seconds
    assert usual == pytest.approx(done.usual_util_frac(), abs=0.10)


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
def test_copies_are_told_apart(tmp_path: Path, memory: str) -> None:
    done = watched(tmp_path, memory, SHORTER)
    assert done.record.deep.taken, done.record.deep.why
    (copies,) = [found for found in done.use.copies if found.direction == "HtoD"]
    assert copies.memory == memory
    assert abs(copies.count - done.record.deep.ticks) <= 1
    assert copies.moved_bytes in (None, 64 * 64 * 4 * copies.count)


def test_a_wait_inside_of_torch_is_seen(tmp_path: Path) -> None:
    done = watched(tmp_path, "masked", SHORTER)
    assert done.record.deep.taken, done.record.deep.why
    waits = {wait.phase: wait for wait in done.use.hidden_waits if wait.kind == "sync"}
    told = {phase: wait.count / done.use.ticks for phase, wait in waits.items()}
    keep("masked", threads=done.record.deep.threads, **told)
    assert told["other"] == pytest.approx(1.0, abs=0.1)
    copied = watched(tmp_path, "pageable", SHORTER).use.hidden_waits
    assert "other" not in [wait.phase for wait in copied], "those copies have a hook"


def test_cuda_graphs_are_left_alone_by_itself(tmp_path: Path) -> None:
    expected = plain("graph", STEPS["graph"])
    done = watched(tmp_path, "graph", STEPS["graph"], "auto")
    assert done.out == expected
    assert not done.record.deep.taken
    assert "CUDA graphs" in done.record.deep.why


@pytest.mark.parametrize("kind", ["graph", "reduce"])
def test_cuda_graphs_when_asked(tmp_path: Path, kind: str) -> None:
    """Taken from CUDA 12.6 on; in both cases the training goes on to the same end."""
    expected = plain(kind, STEPS[kind])
    done = watched(tmp_path, kind, STEPS[kind])
    assert done.out == expected
    note = done.record.deep
    keep(f"{kind} asked", taken=note.taken, why=note.why, events=note.events, stall_s=note.stall_s)
    if cuda_version() < (12, 6):
        assert not note.taken
    elif note.taken:
        assert note.cuda_graphs
        assert done.use.kernels > 100


def cuda_version() -> tuple[int, ...]:
    """Of torch."""
    import torch

    return tuple(map(int, torch.version.cuda.split(".")[:2]))


def test_beside_a_profiler_of_the_script(tmp_path: Path) -> None:
    done = watched(tmp_path, "scheduled", SHORTER)
    assert done.record.deep.why == "the script has a profiler of its own"


def test_a_profiler_within_the_window(tmp_path: Path) -> None:
    done = watched(tmp_path, "within", SHORTER)
    assert done.out.endswith("True"), "the script's own profiler saw nothing"
    assert "profiler of its own" in done.record.deep.why


def test_a_profiler_after_the_window(tmp_path: Path) -> None:
    done = watched(tmp_path, "later", SHORTER)
    assert done.record.deep.taken
    assert done.out.endswith("True"), "the script's own profiler saw nothing"


def test_too_few_steps(tmp_path: Path) -> None:
    done = watched(tmp_path, "launch", 20)
    assert "there were not" in done.record.deep.why
