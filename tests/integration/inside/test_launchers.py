"""However the training is started, every process of it that trains is seen: rank, ticks, and phases."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from stoker.diagnose.causes.arrivals import Late, Why, arrivals
from stoker.model.record import ProcessRecord

STEPS = 30


def assert_trained(record: ProcessRecord, steps: int, rank: int | None, world: int | None) -> None:
    assert record.last is not None
    assert (record.last.ticks, record.rank, record.world) == (steps, rank, world)
    assert record.last.phase("forward") > 0
    assert record.last.phase("optim") > 0
    assert record.ended


def stub_commands(stubs: Path) -> dict[str, list[str]]:
    script = str(stubs / "stub_training.py")
    return {
        "script": ["python", script, str(STEPS)],
        "module": ["python", "-m", "tiny_pkg", str(STEPS)],
        "sh -c": ["sh", "-c", f"'{sys.executable}' '{script}' {STEPS}; true"],
        "code": ["python", "-c", f"import stub_training; stub_training.train({STEPS})"],
    }


@pytest.mark.parametrize("launcher", ["script", "module", "sh -c", "code"])
def test_one_process(launcher: str, watch, stubs: Path, stub_env: Mapping[str, str]) -> None:
    done = watch(*stub_commands(stubs)[launcher], env=stub_env)
    assert (done.code, done.err) == (0, "")
    assert_trained(done.record, STEPS, None, None)


def test_shell_script_with_a_rank_in_the_environment(watch, stubs: Path, stub_env, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(
        f"#!/bin/sh\nexport RANK=3 WORLD_SIZE=8\nexec '{sys.executable}' {stubs}/stub_training.py {STEPS}\n"
    )
    script.chmod(0o755)
    done = watch(str(script), env=stub_env)
    assert (done.code, done.err) == (0, "")
    assert_trained(done.record, STEPS, 3, 8)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver", "os.fork"])
def test_started_by_multiprocessing(method: str, watch, stubs: Path, stub_env) -> None:
    done = watch("python", str(stubs / "started_by_multiprocessing.py"), method, str(STEPS), env=stub_env)
    assert (done.code, done.err) == (0, "")
    ranks = {record.rank: record for record in done.processes}
    assert set(ranks) == {None, 0, 1}
    assert_trained(ranks[None], 3, None, None)
    for rank in range(2):
        assert_trained(ranks[rank], STEPS, rank, 2)
        assert ranks[rank].ppid != 0


def ranks_of(done) -> dict[int | None, ProcessRecord]:
    assert done.code == 0, done.err
    truth = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    records = {trainer.record.rank: trainer.record for trainer in done.summary.trainers}
    assert {row["rank"]: row["ticks"] for row in truth} == {0: STEPS, 1: STEPS}
    assert len(done.summary.trainers) == 2
    return records


def test_torchrun(watch, scripts: Path) -> None:
    launcher = ["python", "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=0"]
    launcher = [word for word in launcher if "master_port" not in word] + ["--standalone"]
    records = ranks_of(watch(*launcher, str(scripts / "ddp.py"), "--steps", str(STEPS)))
    for rank in range(2):
        assert_trained(records[rank], STEPS, rank, 2)
        assert records[rank].last.phase("backward") > 0


def test_torch_multiprocessing_spawn(watch, scripts: Path) -> None:
    records = ranks_of(watch("python", str(scripts / "spawned.py"), "--steps", str(STEPS)))
    for rank in range(2):
        assert_trained(records[rank], STEPS, rank, 2)
        assert records[rank].last.phase("backward") > 0


def test_the_late_rank_is_named(watch, scripts: Path) -> None:
    """On the clock both ranks share, the one that reads slowly comes last to backward."""
    launcher = ["python", "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    done = watch(*launcher, str(scripts / "late_rank.py"), "--steps", "120")
    assert done.code == 0, done.err
    met = arrivals(done.summary)
    assert met is not None
    assert (met.late, met.late_rank, met.phase, met.why) == (Late.ONE, 1, "data", Why.INPUT)
    waits = {one.rank: one.waits_frac for one in met.ranks}
    assert waits[0] > 0.5 > waits[1]
