"""Runtime knobs in real trainings: turned, told, exact where they say so, and never in the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker.model.knobs import KnobReport
from stoker.trials.knobs import liveness, parse_settings, prepare

pytestmark = pytest.mark.slow


class Training:
    """`knobbed.py` of a kind, with knobs or without."""

    def __init__(self, forked: Callable[..., Any], script: Path, folder: Path) -> None:
        self.forked, self.script, self.folder = forked, script, folder

    def __call__(self, kind: str, knobs: str | None = None, **env: str) -> Trained:
        prepared = {} if knobs is None else prepare(parse_settings(knobs, []), [], {}, self.folder).env
        done = self.forked(self.script, kind, env={**prepared, **env}, watched=knobs is not None)
        assert done.code == 0, done.err
        return Trained(done)


class Trained:
    def __init__(self, watched: Any) -> None:
        self.told = json.loads(watched.out)
        self.watched = watched

    def report(self, name: str) -> KnobReport:
        (found,) = [report for report in self.watched.record.knobs if report.name == name]
        return found

    @property
    def failed_hooks(self) -> list[str]:
        return [hook.name for hook in self.watched.record.hook_failures]


@pytest.fixture
def train(forked: Callable[..., Any], scripts: Path, tmp_path: Path) -> Training:
    return Training(forked, scripts / "knobbed.py", tmp_path)


@pytest.mark.parametrize(
    ("kind", "knobs"),
    [
        ("plain", ""),
        ("plain", "num_workers=2"),
        ("plain", "num_workers=1,prefetch_factor=3"),
        ("plain", "num_workers=2,persistent_workers"),
        ("early", "num_workers=2"),
        ("generator", "num_workers=2,persistent_workers"),
        ("workers", "num_workers=1"),
        ("workers", "num_workers=0"),
        ("workers", "prefetch_factor=5,persistent_workers"),
    ],
)
def test_exact_knobs_leave_order_and_losses_to_the_last_bit(train: Training, kind: str, knobs: str) -> None:
    before, after = train(kind), train(kind, knobs)
    assert after.told == before.told
    assert after.failed_hooks == []
    for setting in parse_settings(knobs, []):
        assert after.report(setting.name).state == "applied"
        assert liveness(setting, after.watched.summary.run).live is True


def test_the_loader_shows_its_workers(train: Training) -> None:
    done = train("plain", "num_workers=2,prefetch_factor=3")
    (loader,) = done.watched.record.loaders
    assert (loader.num_workers, loader.prefetch_factor, loader.batches) == (2, 3, 15)
    assert {worker.number for worker in done.watched.record.workers} == {0, 1}
    assert loader.depth_mean is not None, "the queue of workers a knob made is seen too"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("iterable", "every sample would be trained 2 times"),
        ("sampler", "not torch's"),
        ("replacement", "a random stream of the script's"),
    ],
)
def test_workers_that_would_change_the_samples_are_refused(train: Training, kind: str, says: str) -> None:
    before, after = train(kind), train(kind, "num_workers=2")
    assert after.told == before.told
    report = after.report("num_workers")
    assert report.state == "refused"
    assert says in report.why


def test_workers_that_fail_are_given_up(train: Training) -> None:
    before, after = train("fragile"), train("fragile", "num_workers=2,prefetch_factor=4")
    assert after.told == before.told
    assert after.report("num_workers").state == "refused"
    assert "not in a worker" in after.report("num_workers").why
    assert not after.report("prefetch_factor").in_effect


def test_what_the_script_has_already(train: Training) -> None:
    done = train("workers", "num_workers=2,prefetch_factor=2,threads=1")
    assert [report.state for report in done.watched.record.knobs[:2]] == ["already", "already"]
    assert "already set by the script" in done.report("num_workers").did
    assert train("fused", "fused").report("fused").state == "already"


def test_what_needs_a_gpu_says_so(train: Training) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    before = train("plain")
    after = train("plain", "pin_memory,non_blocking,tf32,cudnn_benchmark,allocator,nccl")
    assert after.told == before.told
    assert {report.state for report in after.watched.record.knobs} <= {"refused", "unused"}
    assert all(report.why for report in after.watched.record.knobs)
    assert "CUDA" in after.report("pin_memory").why


def test_bf16_is_live_and_leaves_as_float32(train: Training) -> None:
    before, after = train("plain"), train("plain", "bf16")
    assert after.told["types"] == ["torch.float32"]
    assert after.told["order"] == before.told["order"]
    assert after.told["loss"] != before.told["loss"]
    assert after.report("bf16").state == "applied"
    facts = after.watched.record.facts
    assert facts is not None
    assert facts.dtypes == ("bfloat16",)


def test_off_is_not_in_effect_where_the_script_does_it_itself(train: Training) -> None:
    assert train("plain", "bf16=off").report("bf16").state == "already"
    before, after = train("autocast"), train("autocast", "bf16=off,compile=off,channels_last=off")
    assert after.told == before.told
    assert after.report("bf16").state == "refused"
    assert "autocast to bfloat16" in after.report("bf16").why
    assert after.report("compile").state == after.report("channels_last").state == "already"


def test_compile_keeps_the_keys_and_compiles(train: Training) -> None:
    before, after = train("plain"), train("plain", "compile=eager")
    assert after.told["keys"] == before.told["keys"]
    assert after.told["loss"] == before.told["loss"]
    assert after.report("compile").state == "applied"
    assert after.watched.record.last.phase("compile") > 0


@pytest.fixture
def compiling(forked: Callable[..., Any], scripts: Path, tmp_path: Path) -> Training:
    return Training(forked, scripts / "compiled_models.py", tmp_path)


def test_a_model_whose_forward_is_torchs_own_is_compiled_too(compiling: Training) -> None:
    """`Module.compile` of a Sequential compiles nothing, and says nothing."""
    before, after = compiling("sequential"), compiling("sequential", "compile=eager")
    assert after.told == before.told
    assert after.report("compile").state == "applied"
    assert after.report("compile").why == ""


def test_a_model_the_script_compiles_stays_as_it_is(compiling: Training) -> None:
    """How it was compiled cannot be told: `inductor` is what is usual, anything else would be a guess."""
    before, usual, other = (
        compiling("compiled", *knobs) for knobs in ((), ("compile",), ("compile=aot_eager",))
    )
    assert before.told == usual.told == other.told
    assert usual.report("compile").state == "already"
    assert other.report("compile").state == "refused"
    assert other.report("compile").why == "already compiled by the script: OptimizedModule"


def test_a_model_of_which_nothing_is_compiled_ran_eager(compiling: Training) -> None:
    before, after = compiling("nothing"), compiling("nothing", "compile=eager")
    assert after.told == before.told
    report = after.report("compile")
    assert not report.in_effect
    assert report.why.startswith("compile failed, ran eager")


def test_a_compiler_that_fails_is_named(
    watch: Callable[..., Any], compiling: Training, scripts: Path, tmp_path: Path
) -> None:
    """torch's errors are suppressed: the training goes on, and would be measured as compiled."""
    (setting,) = parse_settings("compile=inductor", [])
    env = prepare([setting], [], {}, tmp_path).env
    env |= {"CXX": "/no/such/compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = watch("python", str(scripts / "compiled_models.py"), "sequential", env=env)
    assert done.code == 0, done.err
    assert json.loads(done.out) == compiling("sequential").told
    found = liveness(setting, done.summary.run)
    assert found.live is False
    assert found.reason.startswith("compile failed, ran eager: torch has compiled nothing of it (tries: 1")


def test_channels_last_fused_and_threads(train: Training) -> None:
    before, after = train("plain"), train("plain", "channels_last,fused,threads=2")
    assert after.told["keys"] == before.told["keys"]
    assert (after.told["fused"], after.told["threads"]) == (True, 2)
    assert {report.state for report in after.watched.record.knobs} == {"applied"}
    assert float.fromhex(after.told["loss"]) == pytest.approx(float.fromhex(before.told["loss"]), rel=1e-4)


def test_block_shuffle_is_another_order_of_whole_blocks(train: Training) -> None:
    before, after = train("plain"), train("plain", "block_shuffle=8")
    epoch = after.told["order"][:40]
    assert epoch != before.told["order"][:40]
    assert sorted(epoch) == list(range(40))
    assert all(epoch[at : at + 8] == list(range(epoch[at], epoch[at] + 8)) for at in range(0, 40, 8))
    assert after.told["order"][40:80] != epoch


HOOKS = ("knob_loader", "knob_models", "knob_bf16", "knob_optimizers", "knob_block_shuffle")


@pytest.mark.parametrize("fault", [f"{hook}:{when}" for hook in HOOKS for when in ("install", "1", "2")])
def test_a_knob_that_fails_leaves_the_training_unharmed(train: Training, fault: str) -> None:
    hook = fault.partition(":")[0]
    knob = {
        "knob_loader": "num_workers=2",
        "knob_optimizers": "fused",
        "knob_block_shuffle": "block_shuffle=64",
    }
    done = train("plain", knob.get(hook, "bf16"), STOKER_FAULT=fault)
    assert len(done.told["order"]) == 120
    assert done.told["types"] == ["torch.float32"]
    if not (hook == "knob_optimizers" and fault.endswith(":2")):  # only one optimizer is made
        assert hook in done.failed_hooks
    if fault.endswith((":install", ":1")):
        assert done.told["order"] == train("plain").told["order"]


def test_nothing_of_it_is_imported_unless_asked_for(train: Training) -> None:
    look = "import sys\nassert not [n for n in sys.modules if n.startswith('_stoker_inside.knobs')]\n"
    done = train.forked(train.script, "plain", after=look)
    assert done.code == 0, done.err
    assert done.record.knobs == ()
    assert done.record.facts is None
    assert train.forked(train.script, "plain", after=look, env={"STOKER_KNOBS": "{}"}).code != 0


def test_knobs_that_cannot_be_read_leave_the_training_alone(train: Training) -> None:
    done = train.forked(train.script, "plain", env={"STOKER_KNOBS": "no json"})
    assert done.code == 0, done.err
    assert done.record.knobs == ()
