"""Trials on a real GPU: CUDA works behind each guard, a lack of memory is told, the GPU is empty after."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.errors import DeviceInUse
from stoker.model.failure import FailureClass
from stoker.outside.gpu.nvml import find_gpus
from stoker.outside.gpu.seam import Facts
from stoker.trials.guard.coverage import find_coverage
from stoker.trials.guard.mode import GuardMode
from stoker.trials.trial import TrialResult, TrialSpec, run_trial
from stoker.trials.turn import look

pytestmark = [pytest.mark.gpu, pytest.mark.empty]
TRAIN = """
import torch
model = torch.nn.Linear(512, 512, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(200):
    optimizer.zero_grad(); model(torch.randn(64, 512, device="cuda")).sum().backward(); optimizer.step()
torch.save(model.state_dict(), "model.pt"); print("saved")
"""
OOM = TRAIN + "torch.empty(2**42, device='cuda')\n"
TWO_RANKS = """
import os, time, torch, torch.multiprocessing as mp
def work(rank):
    os.environ["RANK"], os.environ["WORLD_SIZE"] = str(rank), "2"
    model = torch.nn.Linear(8, 8, device="cuda"); optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step in range(20):
        optimizer.zero_grad(); model(torch.randn(4, 8, device="cuda")).sum().backward(); optimizer.step()
    if rank == 1: torch.empty(2**42, device="cuda")
    time.sleep(1000)
if __name__ == "__main__":
    ranks = [mp.get_context("spawn").Process(target=work, args=(rank,)) for rank in range(2)]
    for rank in ranks: rank.start()
    for rank in ranks: rank.join()
"""


def uuid() -> str:
    facts = find_gpus().describe().devices[0]
    assert isinstance(facts, Facts)
    assert isinstance(facts.uuid, str)
    return facts.uuid


def tried(tmp_path: Path, code: str, mode: GuardMode, for_s: float = 120.0) -> TrialResult:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    script = project / "train.py"
    script.write_text(code, encoding="utf-8")
    if find_coverage(mode, cwd=project).mode is not mode:
        pytest.skip(f"no {mode.value} here")
    folder = tmp_path / "ab" / mode.value
    spec = TrialSpec(
        (sys.executable, str(script)),
        dict(os.environ),
        folder,
        for_s,
        devices=(uuid(),),
        guard=mode,
        cwd=project,
    )
    return run_trial(spec)


@pytest.mark.parametrize(
    ("mode", "code", "failure"),
    [
        (GuardMode.OVERLAY, TRAIN, None),
        (GuardMode.FENCE, TRAIN, None),
        (GuardMode.REDIRECT, OOM, FailureClass.GPU_OOM),
    ],
)
def test_cuda_works_behind_the_guard(
    tmp_path: Path, mode: GuardMode, code: str, failure: FailureClass | None
) -> None:
    result = tried(tmp_path, code, mode)
    log = result.log.read_text(encoding="utf-8")
    assert (result.failure and result.failure.kind) is failure, log
    assert "saved" in log
    assert [path.name for path in (tmp_path / "project").iterdir()] == ["train.py"]
    assert not look(find_gpus(), uuid()).using


def test_out_of_memory_on_one_rank_of_two_ends_the_trial(tmp_path: Path) -> None:
    result = tried(tmp_path, TWO_RANKS, GuardMode.REDIRECT, for_s=300.0)
    assert result.failure is not None
    assert result.failure.kind is FailureClass.GPU_OOM
    assert result.ended - result.started < 120
    assert not look(find_gpus(), uuid()).using


HOLD = """
import ctypes
cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(3 * 2**30)) == 0
print("held", flush=True)
input()
"""


def test_a_gpu_in_use_is_refused(tmp_path: Path) -> None:
    """Held by a child: a context of this process would stay to its end."""
    argv = [sys.executable, "-c", HOLD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        try:
            with pytest.raises(DeviceInUse, match="somebody else"):
                tried(tmp_path, TRAIN, GuardMode.REDIRECT)
        finally:
            holder.kill()
