"""Every hook may fail, put in, at its first call or at its thousandth: the training never knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.inside.hooks import HOOKS
from stoker.report.run_json import render

NAMES = [hook.name for hook in HOOKS]
PARTS = ["loader_open", "loader_made", "named_eval", "named_step"]
WHEN = {"install": 6, "1": 6, "1000": 1004}
# A device that is not there: the hook for it goes in as if the script had started CUDA.
FAKE_CUDA = "import torch; torch.cuda.is_initialized = lambda: True"
NAMED = ["env=__main__:Sim.step", "eval=__main__:evaluations", "step=__main__:generation"]


@pytest.fixture
def every_hook(forked, scripts: Path, stubs: Path, tmp_path: Path):
    def run(steps: int, fault: str | None):
        """Losses and the run, with a fault, or (None) without Stoker."""
        losses = tmp_path / f"losses-{steps}-{fault is None}"
        before = f"import sys; sys.path.append({str(stubs / 'other_envs')!r})\n{FAKE_CUDA}\n"
        done = forked(
            scripts / "every_hook.py",
            "--steps",
            str(steps),
            "--losses",
            str(losses),
            before=before,
            env={"STOKER_FAULT": fault or ""},
            named=NAMED,
            watched=fault is not None,
        )
        assert (done.code, done.err) == (0, ""), done.err
        assert json.loads(done.out) == {"ticks": steps}
        return losses.read_text().split(), done

    return run


@pytest.fixture(scope="session")
def known_losses() -> dict[int, list[str]]:
    return {}


@pytest.mark.parametrize(
    ("name", "when"), [*((name, when) for name in NAMES for when in WHEN), *((name, "1") for name in PARTS)]
)
def test_a_failing_hook(name: str, when: str, every_hook, known_losses: dict[int, list[str]]) -> None:
    steps = WHEN[when]
    if steps not in known_losses:
        known_losses[steps] = every_hook(steps, None)[0]
    losses, done = every_hook(steps, f"{name}:{when}")
    assert losses == known_losses[steps]
    assert len(set(losses)) == steps
    listed = [failed for process in told(done) for failed in process["hook_failures"]]
    assert [(failed["name"], failed["when"]) for failed in listed] == [
        (name, "install" if when == "install" else "call")
    ]
    place = "install" if when == "install" else f"call {when}"
    assert f"fault asked for at {place}" in listed[0]["error"]


def told(done) -> list[dict]:
    found: list[dict] = json.loads(render(done.summary))["trainers"]
    return found


def test_without_a_fault_nothing_is_listed(every_hook, known_losses: dict[int, list[str]]) -> None:
    losses, done = every_hook(6, "nobody:1")
    assert len(losses) == 6
    assert done.main.record.hook_failures == ()
    last = done.main.record.last
    assert last.ticks == 6
    for phase in ("data", "env", "forward", "backward", "optim", "save", "gc"):
        assert last.phase(phase) > 0, phase
