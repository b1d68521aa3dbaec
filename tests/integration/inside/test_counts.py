"""Ticks, iterations and units of the tiny trainings are those the scripts count themselves; and each of them
computes the same losses, to the last bit, as without Stoker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.diagnose.iteration import Iteration
from stoker.diagnose.tick_kinds import TickKind


@dataclass(frozen=True)
class Expected:
    """One iteration: steps of each optimizer in the order they first stepped, and env calls."""

    steps: tuple[float, ...]
    env_calls: float = 0
    envs: int = 1


SCRIPTS = {
    "supervised": Expected((1,)),
    "accumulation": Expected((1,)),
    "gan": Expected((5, 1)),
    "sac_like": Expected((2, 1, 1), 2),
    "ppo": Expected((16,), 64),
    "dqn": Expected((1,), 4),
    "sb3_dqn": Expected((1,), 4),
    "sb3_ppo": Expected((16,), 64, envs=2),
    "lightning_fit": Expected((1,)),
    "custom_sim": Expected((1,), 1),
}


def truth_of(out: str) -> dict[str, int]:
    found: dict[str, int] = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_counts_and_losses(name: str, watch, forked, scripts: Path, tmp_path: Path) -> None:
    script, expected = scripts / f"{name}.py", SCRIPTS[name]
    plain = forked(script, "--losses", str(tmp_path / "plain"), watched=False)
    assert (plain.code, plain.processes) == (0, ())
    named = ["env=__main__:Sim.step"] if name == "custom_sim" else []
    done = watch("python", str(script), "--losses", str(tmp_path / "seen"), named=named)
    assert (done.code, done.err) == (0, "")
    assert done.out == plain.out
    losses = (tmp_path / "seen").read_text().split()
    assert losses == (tmp_path / "plain").read_text().split()
    assert len(set(losses)) > len(losses) / 2
    assert_recorded(done, truth_of(done.out), expected)


def assert_recorded(done, truth: dict[str, int], expected: Expected) -> None:
    record = done.main.record
    last = record.last
    assert (last.ticks, last.env_steps) == (truth["ticks"], truth["env_steps"])
    assert last.backwards == truth.get("backwards", sum(record.optimizer_steps))
    assert last.samples == truth.get("samples", last.samples)
    assert max(record.optimizer_steps) == truth["ticks"]
    assert not record.hook_failures
    assert_iteration(done.main.iteration, expected)
    flow = done.main.throughput
    if truth["env_steps"]:
        ratio = sum(expected.steps[:1]) / (expected.env_calls * expected.envs)
        assert flow.updates_per_env_step == pytest.approx(ratio, rel=1e-9)
    else:
        assert (flow.updates_per_env_step, flow.env_steps_per_s) == (None, None)


def assert_iteration(found: Iteration | None, expected: Expected) -> None:
    assert found is not None
    assert found.exact
    assert found.optimizer_steps == dict(enumerate(expected.steps))
    assert found.env_calls == expected.env_calls


def test_accumulation_is_told(forked, scripts: Path) -> None:
    done = forked(scripts / "accumulation.py")
    assert done.main.throughput.backwards_per_tick == pytest.approx(4.0, rel=0.05)
    assert done.main.throughput.samples_per_s == pytest.approx(
        32 * done.main.throughput.ticks_per_s, rel=0.05
    )


def test_optimizers_are_named_in_order(forked, scripts: Path) -> None:
    truth = truth_of((done := forked(scripts / "gan.py")).out)
    assert done.main.record.optimizers == ("RMSprop", "RMSprop")
    assert done.main.record.optimizer_steps == (truth["ticks"], truth["generator_steps"])


def test_the_replay_of_a_captured_step_is_the_tick(forked, watch, scripts: Path, tmp_path: Path) -> None:
    """And no other graph's, and no graph is kept alive."""
    script = scripts / "graphed.py"
    plain = forked(script, "--losses", str(tmp_path / "plain"), watched=False)
    assert plain.code == 0, plain.err
    done = watch("python", str(script), "--losses", str(tmp_path / "seen"))
    assert (done.code, done.out, done.err) == (0, plain.out, "")
    assert (tmp_path / "seen").read_text() == (tmp_path / "plain").read_text()
    record = done.main.record
    assert not record.hook_failures
    assert record.optimizers == ("SGD", "CUDAGraph")
    assert record.optimizer_steps == (5, 300)
    assert record.last.ticks == truth_of(done.out)["ticks"] == 300
    assert record.last.phase("optim") > 0
    assert done.main.tick_kind is TickKind.OPTIMIZER_STEP


def test_without_ticks_everything_since_the_start_is_shown(forked, scripts: Path) -> None:
    done = forked(scripts / "no_tick.py")
    assert done.summary.trainers == []  # no optimizer, no environment, no loader: not a training
    assert done.record.last.ticks == 0
    assert done.record.last.phase("infer") > 0


@pytest.mark.parametrize(
    ("example", "flags"),
    [
        ("vision.py", "--device cpu --images 48 --epochs 1 --batch-size 8 --num-workers 2 --image-size 32"),
        ("offpolicy.py", "--device cpu --algo sac --steps 400 --warmup-steps 100 --num-envs 2"),
        ("offpolicy.py", "--device cpu --algo ddpg --steps 300 --warmup-steps 100"),
        ("onpolicy.py", "--device cpu --method ppo --iterations 4"),
        ("onpolicy.py", "--device cpu --method ase --iterations 3 --num-envs 16"),
        ("distill.py", "--device cpu --steps 12 --num-workers 2 --seq-len 16 --sequences 128"),
        ("distill.py", "--device cpu --steps 12 --num-workers 0 --seq-len 16 --sequences 128 --bf16"),
    ],
    ids=["vision", "sac", "ddpg", "ppo", "ase", "distill", "distill bf16"],
)
def test_examples_compute_the_same(example: str, flags: str, forked, scripts: Path, tmp_path: Path) -> None:
    script = scripts.parents[1] / "examples" / example
    plain = forked(script, *flags.split(), "--losses", str(tmp_path / "plain"), watched=False)
    assert plain.code == 0, plain.err
    done = forked(script, *flags.split(), "--losses", str(tmp_path / "seen"))
    assert done.code == 0, done.err
    losses = (tmp_path / "seen").read_text().split()
    assert losses == (tmp_path / "plain").read_text().split()
    assert len(losses) > 3
    assert done.main.record.last.ticks >= len(losses)
    assert not done.main.record.hook_failures


def test_the_swarm_is_an_environment_once_it_is_named(watch, scripts: Path) -> None:
    script = scripts.parents[1] / "examples" / "onpolicy.py"
    flags = {"--device": "cpu", "--iterations": "5", "--num-envs": "16", "--horizon": "8"}
    words = ("python", str(script), *(word for pair in flags.items() for word in pair))
    seen, named = watch(*words), watch(*words, named=["env=__main__:Swarm.step"])
    assert (seen.code, named.code) == (0, 0)
    for done, env_steps in ((seen, 0), (named, 5 * 8 * 16)):
        assert done.main.record.optimizer_steps == (5 * 16,)
        assert done.main.record.last.env_steps == env_steps
        assert not done.main.record.hook_failures
    assert_iteration(seen.main.iteration, Expected((1,)))
    assert_iteration(named.main.iteration, Expected((16,), 8))
    assert seen.main.record.last.phase("env") == 0
    assert named.main.record.last.phase("env") > 0
