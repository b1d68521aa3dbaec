"""Each phase is seen, every moment is in exactly one of them, and stages are kept apart."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from stoker.diagnose.sentence import sentence
from stoker.diagnose.window import spans

PRELUDE = """
import gc, io, sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 4))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def spend(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end: pass
def step(batch=torch.randn(2, 4)):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
step()
"""
SPENT_S = 0.03


@pytest.fixture
def recorded(forked, tmp_path: Path):
    def run(code: str, before: str = "", **options: object):
        """`before` the first thing that is seen."""
        script = tmp_path / "phases.py"
        script.write_text(PRELUDE.replace("\nstep()\n", f"\n{before}\nstep()\n") + code)
        done = forked(script, **options)
        assert (done.code, done.err) == (0, ""), done.err
        return done.main.record

    return run


TRANSFORM = "type('T', (nn.Module,), {'forward': lambda self, x: spend(0.03) or x})()"
PARTS = {
    "data": "class Slow(torch.utils.data.Dataset):\n"
    f"    transform = nn.Sequential({TRANSFORM})\n"
    "    def __len__(self): return 1\n"
    "    def __getitem__(self, i): return self.transform(torch.ones(1))\n"
    "list(DataLoader(Slow()))",
    "env": f"import gymnasium\nclass Env(gymnasium.Env):\n    physics = {TRANSFORM}\n"
    "    def step(self, a): return self.physics(a)\nEnv().step(0)",
}


@pytest.mark.parametrize("phase", PARTS)
def test_a_module_without_parameters_is_part_of_what_calls_it(phase: str, recorded) -> None:
    """As torchvision's transforms are."""
    record = recorded(PARTS[phase] + "\nstep()\n")
    assert record.last.phase(phase) >= SPENT_S
    assert record.last.phase("forward") < SPENT_S / 2


SLOW = "type('Slow', (nn.Module,), {'forward': lambda self, x: spend(0.03) or x.sum()})()"
PLACES = {
    "other": "spend(0.03)",
    "data": "class Slow(torch.utils.data.Dataset):\n"
    "    def __len__(self): return 1\n"
    "    def __getitem__(self, i): spend(0.03); return i\n"
    "list(DataLoader(Slow()))",
    "infer": f"slow = {SLOW}\nwith torch.no_grad(): slow(torch.ones(1))",
    "forward": f"slow = {SLOW}\nslow(torch.ones(1, requires_grad=True))",
    "loss": "loss = model(torch.ones(1, 4)); spend(0.03); loss.backward()",
    "backward": "x = torch.ones(1, requires_grad=True)\n"
    "y = x * 2\ny.register_hook(lambda g: spend(0.03)); y.backward()",
    "optim": "optimizer.register_step_pre_hook(lambda *a: spend(0.03)); step()",
    "save": "class Slow:\n    def __reduce__(self): spend(0.03); return (int, ())\n"
    "Slow.__module__ = 'builtins'\ntorch.save(Slow(), io.BytesIO())",
    "gc": "gc.callbacks.append(lambda when, info: when == 'start' and spend(0.03)); gc.collect()\n"
    "gc.callbacks.pop()",
    "env": "import gymnasium\nclass Env(gymnasium.Env):\n    def step(self, a): spend(0.03)\nEnv().step(0)",
}


@pytest.mark.parametrize("phase", PLACES)
def test_time_goes_to_its_phase(phase: str, recorded) -> None:
    record = recorded(PLACES[phase] + "\nstep()\n")
    assert record.last.phase(phase) >= SPENT_S
    elapsed = record.last.t_s - record.began_s
    assert sum(record.last.phase_s) == pytest.approx(elapsed, abs=0.05)
    assert record.last.phase(phase) <= elapsed


def test_phases_add_up_to_the_time_in_every_row(recorded) -> None:
    code = "end = time.perf_counter() + 3.2\nwhile time.perf_counter() < end: step()\n"
    record = recorded(code)
    assert record.seconds[-1].closely_frac < 1.0, "ticks this short are not all looked at closely"
    assert not record.hook_failures
    rows = [second.sums for second in record.seconds] + [mark.sums for mark in record.marks]
    rows.sort(key=lambda row: row.t_s)
    assert len(record.seconds) >= 3
    for before, after in pairwise(rows):
        between = after.minus(before)
        assert sum(between.phase_s) == pytest.approx(between.t_s, abs=1e-3)  # within one tick
        assert min(between.phase_s) > -0.005, "what is not told apart yet is estimated, and mended later"
    split = [tick for tick in record.ticks if tick.phase_s is not None]
    assert len(split) > 100
    for tick in split:
        assert sum(tick.phase_s or ()) == pytest.approx(tick.duration_s, abs=3e-5)


def test_collection_between_model_and_backward_leaves_the_loss_alone(recorded) -> None:
    code = "loss = model(torch.ones(1, 4)); spend(0.02); gc.collect(); spend(0.02); loss.backward(); step()\n"
    record = recorded(code)
    assert record.last.phase("loss") >= 0.04
    assert record.last.phase("gc") > 0


ENVS = """
import gymnasium, numpy as np
class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None): return np.zeros(1, np.float32), {}
    def step(self, action): spend(0.002); return np.zeros(1, np.float32), 0.0, False, False, {}
"""
STEPPED = {
    "env": ("env = Env()\nfor _ in range(4): env.step(0)", 4, 4),
    "wrapped env": (
        "env = gymnasium.wrappers.TimeLimit(Env(), 9); env.reset()\nfor _ in range(4): env.step(0)",
        4,
        4,
    ),
    "made by name": (
        "gymnasium.register('Mine-v0', entry_point=Env)\nenv = gymnasium.make('Mine-v0'); env.reset()\n"
        "for _ in range(4): env.step(0)",
        4,
        4,
    ),
    "vector env": (
        "env = gymnasium.vector.SyncVectorEnv([Env] * 3); env.reset()\n"
        "for _ in range(4): env.step(np.zeros(3, dtype=int))",
        4,
        12,
    ),
    "wrapped vector env": (
        "env = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.vector.SyncVectorEnv([Env] * 3))\n"
        "env.reset()\nfor _ in range(4): env.step(np.zeros(3, dtype=int))",
        4,
        12,
    ),
    "SB3 VecEnv": (
        "from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor\n"
        "env = VecMonitor(DummyVecEnv([Env] * 3)); env.reset()\n"
        "for _ in range(4): env.step(np.zeros(3, dtype=int))",
        4,
        12,
    ),
}


@pytest.mark.parametrize("kind", STEPPED)
def test_environments(kind: str, recorded) -> None:
    code, calls, steps = STEPPED[kind]
    record = recorded(ENVS + code + "\nstep()\n")
    assert (record.seconds[-1].env_calls, record.last.env_steps) == (calls, steps)
    assert record.last.phase("env") >= 0.002 * steps
    assert not record.hook_failures


def test_environments_that_look_odd_still_work(recorded) -> None:
    """A static step, a mixin with a subclass hook of its own, an attribute hook that complains."""
    code = "made = []\nclass Mixin:\n"
    code += "    def __init_subclass__(cls, **k): super().__init_subclass__(**k); made.append(cls.__name__)\n"
    code += "class Odd(gymnasium.Env, Mixin):\n    @staticmethod\n    def step(action): return action\n"
    code += "class Loud(gymnasium.Env):\n    def step(self, action): return action\n"
    code += "    def __getattr__(self, name): raise SystemExit(name)\n"
    code += "assert Odd().step(3) == 3 and made == ['Odd'] and Loud().step(4) == 4\n"
    record = recorded(ENVS + code + "step()\n")
    assert record.last.env_steps == 1


def test_acting_is_inference_before_an_env_step(recorded) -> None:
    code = f"slow, env = {SLOW}, Env()\nwith torch.no_grad():\n    slow(torch.ones(1)); env.step(0)\n"
    code += "    slow(torch.ones(1))\nstep()\n"
    record = recorded(ENVS + code)
    assert record.last.phase("infer") >= 0.06
    assert 0.03 <= record.seconds[-1].acting_s < 0.06


NAMED = """
class Sim:
    def step(self, a): spend(0.002); return a
    @staticmethod
    def tick(): spend(0.002); return 'static'
    @classmethod
    def advance(cls, a): spend(0.002); return cls.__name__
    def reset(self): return 0
def simulate(): spend(0.002); return 'function'
"""


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("Sim.step", "assert Sim().step(a=3) == 3"),
        ("Sim.tick", "assert Sim.tick() == Sim().tick() == 'static'"),
        ("Sim.advance", "assert Sim.advance(1) == 'Sim'"),
        ("simulate", "assert simulate() == 'function'"),
    ],
)
def test_named_in_the_script(name: str, use: str, recorded) -> None:
    record = recorded(f"{use}\nstep()\n", NAMED, named=[f"env=__main__:{name}"])
    assert record.last.phase("env") >= 0.002
    assert record.last.env_steps == (2 if name == "Sim.tick" else 1)
    assert not record.hook_failures


@pytest.mark.parametrize(
    ("returns", "steps"),
    [
        ("torch.zeros(8, 3), torch.zeros(8), torch.zeros(8, dtype=bool), {}", 8),
        ("torch.zeros(8, 3), torch.zeros(8, 1)", 8),
        ("torch.zeros(3), 0.5, False, {}", 1),
        ("torch.zeros(8, 3), torch.zeros(8), torch.zeros(5)", 1),
        ("torch.zeros(8, 3)", 1),
    ],
)
def test_as_many_environments_as_rewards(returns: str, steps: int, recorded) -> None:
    """A simulator of the user's own that does not say how many it has."""
    own = f"import torch\nclass Batched:\n    def step(self, action):\n        return {returns}\n"
    code = "sim = Batched()\nfor _ in range(3):\n    sim.step(1)\nstep()\n"
    record = recorded(code, own, named=["env=__main__:Batched.step"])
    assert record.last.env_steps == 3 * steps
    assert not record.hook_failures


def test_named_in_a_module(recorded, tmp_path: Path) -> None:
    (tmp_path / "sims.py").write_text("class Sim:\n    num_envs = 5\n    def step(self): return 7\n")
    record = recorded("import sims\nassert sims.Sim().step() == 7\nstep()\n", named=["env=sims:Sim.step"])
    assert (record.seconds[-1].env_calls, record.last.env_steps) == (1, 5)


STRATEGY = """
import time, torch

def spend(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end: pass

class Strategy:
    def tell(self, again=0):
        spend(0.002)
        return self.tell(again - 1) if again else "told"
    @staticmethod
    def update():
        spend(0.002); return "updated"

def update():
    spend(0.002); return "by function"

def wait_until_named():
    '''Functions of the script are looked for once a second.'''
    end = time.perf_counter() + 20
    while not hasattr(update, "__wrapped__") and time.perf_counter() < end: time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("Strategy.tell", "assert Strategy().tell(again=2) == 'told'"),
        ("Strategy.update", "assert Strategy.update() == Strategy().update() == 'updated'"),
        ("update", "wait_until_named(); assert update() == 'by function'"),
    ],
)
def test_a_named_function_is_the_step(name: str, use: str, forked, tmp_path: Path) -> None:
    """Neither an optimizer nor a gradient; a function that calls itself is one step."""
    calls = 2 if name == "Strategy.update" else 1
    script = tmp_path / "strategy.py"
    script.write_text(f"{STRATEGY}\nfor _ in range(5):\n    {use}\n")
    done = forked(script, named=[f"step=__main__:{name}"])
    assert (done.code, done.err) == (0, "")
    record = done.main.record
    assert done.main.named_step
    assert record.optimizers == (f"{name}()",)
    assert record.optimizer_steps == (5 * calls,)
    assert record.last.ticks == 5 * calls
    assert not record.hook_failures


@pytest.mark.parametrize("name", ["__main__:Nobody.step", "nowhere:Sim.step", "json:JSONEncoder.nothing"])
def test_a_name_nothing_answers_to_is_told(name: str, recorded) -> None:
    record = recorded("import json\nstep()\n", named=[f"env={name}"])
    (told,) = record.hook_failures
    assert told.name == "named"
    assert name in told.error or "nothing" in told.error
    assert record.last.ticks == 2


def test_ranges_of_the_user_are_taken_as_names(recorded) -> None:
    code = "for _ in range(3):\n    with torch.profiler.record_function('my part'): spend(0.002)\n"
    code += "@torch.profiler.record_function('decorated')\ndef part(): spend(0.002)\npart()\nstep()\n"
    record = recorded(code)
    assert {name: count for name, (count, _) in record.ranges.items()} == {"my part": 3, "decorated": 1}
    assert record.ranges["my part"][1] >= 0.006


def test_the_line_that_costs_most_is_found(forked, tmp_path: Path) -> None:
    """It holds the GIL for longer than Python's switch interval: a look that waits for the GIL falls into it,
    also on a machine so busy that any other call may be the slow one."""
    lines = "def hot():\n    spend(0.02)  # here\n"
    script = tmp_path / "lines.py"
    loop = "end = time.perf_counter() + 2.5\nwhile time.perf_counter() < end: step(); hot()\n"
    script.write_text(PRELUDE + lines + loop)
    main = forked(script).main
    assert sum(sample.count for sample in main.record.sampled) >= 10
    assert {line.phase for line in main.lines} >= {"other"}
    places = [line.place.leaf for line in main.lines if line.phase == "other"]
    assert places[0][0] == str(script)
    assert places[0][2] == "spend"


def test_a_simulator_that_nobody_named_is_not_called_work(forked, scripts: Path) -> None:
    """It runs between the model's call and backward(), as a loss would."""
    done = forked(scripts / "custom_sim.py")
    told = sentence(done.summary)
    assert "between the model's call and backward()" in told
    assert "at work" not in told
    assert "custom_sim.py" in told


# -- stages ------------------------------------------------------------------------------------------------

EVALUATION = """
model.eval()
with torch.no_grad():
    for (batch,) in DataLoader(data, 4): model(batch); spend(0.005)
model.train()
"""
EPOCH = "for (batch,) in DataLoader(data, 4): step(batch); spend(0.002)\n"
STAGES = {
    "by model.eval()": EVALUATION,
    "by a range": "with torch.profiler.record_function('validation'): spend(0.03)\n",
    "by name": "evaluate()\n",
    "SB3's function": "from stable_baselines3.common.evaluation import evaluate_policy\n"
    "class Policy:\n    def predict(self, o, **k): spend(0.03); return np.zeros(len(o), int), None\n"
    "class Short(Env):\n    def step(self, a): return np.zeros(1, np.float32), 0.0, True, False, {}\n"
    "evaluate_policy(Policy(), Short(), n_eval_episodes=1, warn=False)\n",
}


@pytest.mark.parametrize("how", STAGES)
def test_evaluation_is_kept_apart(how: str, recorded) -> None:
    code = ENVS + EPOCH + STAGES[how] + EPOCH + STAGES[how] + EPOCH
    own = "def evaluate(): spend(0.03)\n"
    record = recorded(code, own, named=["eval=__main__:evaluate"] if how == "by name" else [])
    cut = spans(record)
    assert [span.stage for span in cut][:6] == ["startup", "train", "eval", "train", "eval", "train"]
    evaluations = [span.content for span in cut if span.stage == "eval"]
    assert all(content.t_s >= 0.03 for content in evaluations)
    assert [content.ticks for content in evaluations] == [0, 0]
    training = [span.content for span in cut if span.stage == "train"]
    assert sum(content.ticks for content in training) == 18
    assert all(content.t_s < 0.2 for content in training)


PASSED_OVER = """
class Scaled(nn.Module):  # as torchvision's transforms are
    def forward(self, row): return row * 1.0
class Rows(torch.utils.data.Dataset):
    scaled = Scaled()
    def __len__(self): return 24
    def __getitem__(self, index): return (self.scaled(data[index][0]),)
train, valid, ema = DataLoader(Rows(), 4), DataLoader(Rows(), 4), nn.Linear(4, 1).eval()
def evaluate(loader, late=False, averaged=False):
    if not (late or averaged): model.eval()
    with torch.no_grad():
        for (batch,) in loader:
            if late: model.eval()
            (ema if averaged else model)(batch)
            spend(0.002)
    model.train()
thinning = sys.modules["_stoker_inside.agent"].agent.recorder.thinning
def epoch():
    for (batch,) in train: step(batch)
end = time.time() + 30
while not thinning.active and time.time() < end: epoch()
looked_closely = []
for _ in range(3):
    for _ in range(40):
        epoch()
        looked_closely.append(thinning.whole)
    evaluate(HOW)
assert looked_closely.count(True) <= 6, looked_closely  # those after an evaluation
"""


@pytest.mark.parametrize("how", ["valid", "train", "train, late=True", "train, averaged=True"])
def test_evaluation_is_seen_where_training_is_passed_over(how: str, recorded) -> None:
    record = recorded(PASSED_OVER.replace("HOW", how))
    evaluations = [span.content for span in spans(record) if span.stage == "eval"]
    assert [content.ticks for content in evaluations] == [0, 0, 0]
    assert [content for content in evaluations if content.t_s < 0.01] == []


ENCODED = """
class Rows(torch.utils.data.Dataset):
    encoder = nn.Linear(4, 4).eval()
    def __len__(self): return 24
    def __getitem__(self, index):
        with torch.no_grad(): return (self.encoder(data[index][0]),)
train = DataLoader(Rows(), 4)
"""


def test_an_encoder_in_the_data_set_is_no_evaluation(recorded) -> None:
    loop = PASSED_OVER[PASSED_OVER.index("thinning =") :].replace("evaluate(HOW)", "pass")
    record = recorded(ENCODED + loop)
    assert {span.stage for span in spans(record)} == {"startup", "train", "after"}


def test_a_pass_without_gradients_is_inference_where_training_is_passed_over(recorded) -> None:
    """As `torch.optim.swa_utils.update_bn` makes it: in training mode, over the training's loader."""
    last = "before = thinning.recorder.totals[:]\nwith torch.no_grad():\n"
    last += "    for (batch,) in train: model(batch)\n"
    last += "infer = sys.modules['_stoker_inside.wire'].INFER\n"
    last += (
        "assert thinning.recorder.counts[infer] >= 6 and thinning.recorder.totals[infer] > before[infer]\n"
    )
    recorded(PASSED_OVER.replace("evaluate(HOW)", "pass") + last)


def test_a_target_network_in_eval_mode_is_no_evaluation(recorded) -> None:
    code = "teacher = nn.Linear(4, 1).eval()\nfor (batch,) in DataLoader(data, 4):\n"
    code += "    with torch.no_grad(): goal = teacher(batch)\n    step(batch)\n"
    record = recorded(code)
    assert {span.stage for span in spans(record)} == {"startup", "train", "after"}


def test_a_range_called_test_around_training_is_training(recorded) -> None:
    record = recorded("with torch.profiler.record_function('test run'):\n    for _ in range(9): step()\n")
    training = [span.content.ticks for span in spans(record) if span.stage == "train"]
    assert sum(training) == 9


def test_evaluation_alone_is_shown(recorded, forked, tmp_path: Path) -> None:
    script = tmp_path / "only.py"
    script.write_text(PRELUDE.replace("\nstep()\n", "\n") + EVALUATION)
    main = forked(script).main
    assert main.window.content.ticks == 0
    assert main.window.content.phase("infer") > 0


def test_evaluation_steps_are_no_part_of_the_iteration(forked, tmp_path: Path) -> None:
    loop = "env = Env()\nfor i in range(60):\n    env.step(0); env.step(0); step()\n"
    loop += "    if i % 20 == 19:\n        with torch.profiler.record_function('eval'):\n"
    loop += "            for _ in range(7): env.step(0)\n"
    script = tmp_path / "loop.py"
    script.write_text(PRELUDE.replace("\nstep()\n", "\n") + ENVS.replace("spend(0.002); ", "") + loop)
    iteration = forked(script).main.iteration
    assert (iteration.env_calls, iteration.optimizer_steps, iteration.exact) == (2, {0: 1}, True)


def test_saving_is_a_stage(forked, tmp_path: Path) -> None:
    script = tmp_path / "saves.py"
    script.write_text(PRELUDE + PLACES["save"] + "\nstep()\n")
    assert forked(script).main.stages_s["save"] >= SPENT_S


def test_lightning_validation(forked, scripts: Path) -> None:
    main = forked(scripts / "lightning_fit.py").main
    evaluations = [span for span in spans(main.record) if span.stage == "eval"]
    assert len(evaluations) == 4  # the sanity check and three epochs
    assert all(span.content.ticks == 0 for span in evaluations)


SECOND_PHASE = """
other = torch.optim.Adam(model.parameters())
def more(n, optimizer):
    for _ in range(n): model(torch.ones(1, 4)).mean().backward(); optimizer.step()
"""


def test_a_second_training_in_one_process_ticks_too(recorded) -> None:
    """The first optimizer is gone: the next one that steps is the one that ticks."""
    code = SECOND_PHASE + "more(50, optimizer)\ndel optimizer; gc.collect()\nmore(30, other)\n"
    assert recorded(code).last.ticks == 1 + 50 + 30


def test_a_training_that_changes_its_optimizer_ticks_again(recorded) -> None:
    code = SECOND_PHASE + "more(800, optimizer)\nmore(700, other)\n"
    assert recorded(code).last.ticks == 1 + 800 + 200  # after 500 steps the first one counts as done
