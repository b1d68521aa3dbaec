"""On a real GPU: the watcher's readings are sane, and the run's GPU is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.diagnose.gpu_view import GpuView, gpus_view, watcher_cost
from stoker.model.run import Run
from stoker.outside.gpu.nvml import find_gpus
from stoker.outside.gpu.seam import Facts
from stoker.store import folder as folders
from stoker.store.reading import load

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = "8"


def watched(folder: Path, *command: str, **environment: str) -> Run:
    path = f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, "PYTHONPATH": path, **environment}
    env.pop("STOKER_HOME", None)
    if "STOKER_NO_GPM" not in environment:
        env.pop("STOKER_NO_GPM", None)
    done = subprocess.run(
        [sys.executable, "-m", "stoker", "run", "--quiet", "--", sys.executable, *command],
        capture_output=True, text=True, cwd=folder, env=env, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return load(folders.find(str(next((folder / ".stoker" / "runs").iterdir()))))


def steady(run: Run) -> GpuView:
    """The run's one GPU over the part in which it trained, without the first second."""
    (trainer,) = run.trainers
    assert not trainer.hook_failures
    start_s = trainer.marks[0].sums.t_s + 1.0
    end_s = trainer.seconds[-1].sums.t_s - 0.5
    (view,) = gpus_view(run, start_s, end_s).devices
    assert view.covered_s > 0.8 * (end_s - start_s), "hardly any of the time is left out"
    return view


def uuids() -> list[str]:
    gpus = find_gpus()
    found = [device.uuid for device in gpus.describe().devices if isinstance(device, Facts)]
    gpus.close()
    return [uuid for uuid in found if isinstance(uuid, str)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return watched(tmp_path_factory.mktemp("run"), str(SCRIPTS / "bursts.py"), SECONDS)


@pytest.mark.alone
def test_readings_are_sane(run: Run) -> None:
    view = steady(run)
    assert view.uuid in uuids()
    assert gpus_view(run, 0.0, float("inf")).known_from == "the training named them"
    assert view.busy_pct is not None
    assert 5 < view.busy_pct < 95, "it works and it sleeps"
    assert view.memory_peak_bytes is not None
    assert view.memory_total_bytes is not None
    assert 2**30 < view.memory_peak_bytes < view.memory_total_bytes
    assert view.allocator is not None
    assert view.allocator.reserved_max_bytes is not None
    assert 2**29 < view.allocator.reserved_max_bytes <= view.memory_peak_bytes
    assert view.sm_clock_median_mhz is not None
    assert view.sm_clock_max_mhz is not None
    assert 100 < view.sm_clock_median_mhz <= view.sm_clock_max_mhz
    assert view.power_w is not None
    assert view.power_limit_w is not None
    assert view.power_default_w is not None
    assert 20 < view.power_w < 1.2 * view.power_limit_w
    assert view.throttled_frac is not None
    assert view.temperature_max_c is not None
    assert 10 < view.temperature_max_c < 110


@pytest.mark.alone
def test_gpm_tells_real_work(run: Run) -> None:
    device = next(device for device in run.gpu.devices if device.uuid == steady(run).uuid)
    if not device.gpm:
        pytest.skip(f"no GPM here: {device.gpm_reason}")
    view = steady(run)
    assert view.busy_source == "gpm"
    assert view.sm_active_pct is not None
    assert view.busy_pct is not None
    assert 1 < view.sm_active_pct <= view.busy_pct + 3
    assert view.dram_pct is not None
    assert view.fp32_pct is not None
    assert view.pcie_rx_bytes_per_s is not None


@pytest.mark.alone
def test_what_looking_costs_is_told(run: Run) -> None:
    """How much it is: benchmarks/overhead/gpu_watcher.py."""
    cost = watcher_cost(run.gpu)
    assert cost is not None
    assert cost.looks > 1.5 * float(SECONDS), "up to five a second"
    assert 0 < cost.gpu_cpu_pct < 1.5, "it limits itself to 1 %"


@pytest.mark.alone
def test_without_gpm_the_time_axis_is_the_same(run: Run, tmp_path: Path) -> None:
    other = steady(watched(tmp_path, str(SCRIPTS / "bursts.py"), SECONDS, STOKER_NO_GPM="1"))
    assert other.busy_source == "nvml"
    assert other.sm_active_pct is None
    reasons = {missing.name: missing.reason for missing in other.missing}
    assert "STOKER_NO_GPM" in reasons["sm_active_pct"]
    whole = steady(run)
    assert whole.busy_pct is not None
    assert other.busy_pct is not None
    assert abs(other.busy_pct - whole.busy_pct) < 12


@pytest.mark.alone
def test_a_script_that_chooses_its_gpu_by_uuid(tmp_path: Path) -> None:
    chosen = uuids()[-1]
    view = steady(watched(tmp_path, str(SCRIPTS / "bursts.py"), "5", chosen))
    assert view.uuid == chosen


def test_a_script_that_never_uses_cuda_gets_no_context(tmp_path: Path) -> None:
    run = watched(tmp_path, str(SCRIPTS / "never_cuda.py"), "2000")
    assert all(not process.devices for process in run.processes)
    assert all(not process.hook_failures for process in run.processes)
    assert all(not reading.own_pids for reading in run.gpu.readings)
    assert run.gpu.readings
    assert not gpus_view(run, 0.0, float("inf")).devices


@pytest.fixture
def neighbour() -> Iterator[None]:
    """Somebody else's process on the same GPU."""
    other = subprocess.Popen([sys.executable, str(SCRIPTS / "bursts.py"), "60"], stdout=subprocess.DEVNULL)
    yield
    other.kill()
    other.wait()


@pytest.mark.usefixtures("neighbour")
def test_a_neighbour_is_seen(tmp_path: Path) -> None:
    view = steady(watched(tmp_path, str(SCRIPTS / "bursts.py"), SECONDS))
    assert view.sharing.shared is not False, view.sharing
    if view.sharing.shared:
        assert "take turns" in view.sharing.text
    else:
        assert view.sharing.text, "where it cannot be told, that is said"


@pytest.mark.alone
def test_alone_on_the_card_nobody_is_called_foreign(run: Run) -> None:
    view = steady(run)
    assert view.sharing.shared is not True, view.sharing
