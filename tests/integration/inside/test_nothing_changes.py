"""Things that naive hooks break. Each piece of code prints the same with Stoker as without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TRAINING = """
import copy, gc, io, os, pickle, sys, threading, warnings
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
inputs = torch.randn(8, 4)
def step(call=None, optimizer=optimizer):
    optimizer.zero_grad()
    loss = (model if call is None else call)(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item().hex()
"""

SNIPPETS = {
    "pickle a model, an optimizer and a loader in use": """
        print(step())
        loader = DataLoader(TensorDataset(inputs), batch_size=2)
        next(iter(loader))
        print(len(pickle.dumps(model)), len(pickle.dumps(optimizer)), len(pickle.dumps(loader)))
        again = pickle.loads(pickle.dumps(model))
        print(step(copy.deepcopy(model)), step(again), sorted(vars(loader)), sorted(vars(optimizer)))
        buffer = io.BytesIO(); torch.save(model, buffer); buffer.seek(0)
        print(step(torch.load(buffer, weights_only=False)))
    """,
    "dill takes a class of the script": """
        import dill, gymnasium
        class Still(gymnasium.Env):
            def step(self, action): return action, 0.0, False, False, {}
            again = step
        print(step())
        data = dill.dumps((Still, Still(), Still.step))
        kind, env, method = dill.loads(data)
        print(len(data), env.step(3), env.again(4), kind.step is method)
    """,
    "save looks the same": """
        buffer = io.BytesIO(); torch.save(model.state_dict(), buffer); print(len(buffer.getvalue()))
        try:
            torch.save(model.state_dict(), "/nowhere/at/all")
        except RuntimeError as error:
            print(type(error).__name__)
    """,
    "hooks of one's own": """
        seen = []
        warnings.simplefilter("ignore")  # one that torch itself gives names another line: ours
        model.register_forward_pre_hook(lambda m, a: seen.append("before"))
        model.register_forward_hook(lambda m, a, r: seen.append("after"))
        model.register_full_backward_hook(lambda m, a, r: seen.append("backward"))
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append("step"))
        optimizer.register_step_post_hook(lambda o, a, k: seen.append("stepped"))
        model[0].weight.register_hook(lambda g: seen.append("grad"))
        from torch.nn.modules.module import register_module_forward_hook
        handle = register_module_forward_hook(lambda m, a, r: seen.append(type(m).__name__))
        print(step(), seen)
    """,
    "a signal that comes while the collector works": """
        import functools, itertools, signal, weakref
        class Node: pass
        def handler(number, frame): raise TimeoutError("in time")
        signal.signal(signal.SIGUSR1, handler)
        print(step())
        node = Node(); node.itself = node
        itself = os.pidfd_open(os.getpid())
        send = map(signal.pidfd_send_signal, itertools.repeat(itself), itertools.repeat(signal.SIGUSR1))
        gone = weakref.ref(node, functools.partial(next, send))  # C all through, as a signal from outside
        del node
        try:
            gc.collect()
            print("lost")
        except TimeoutError as error:
            print(error)
        print(step())
    """,
    "gradients in TorchScript": """
        (folder := __import__("pathlib").Path("scripted.py")).write_text(
            "import torch\\n"
            "def force(x: torch.Tensor):\\n"
            "    return torch.autograd.grad([x.square().sum()], [x])[0]\\n"
            "def fill(x: torch.Tensor):\\n"
            "    torch.autograd.backward([x.square().sum()])\\n"
        )
        sys.path.insert(0, "")
        import scripted
        print(step(), torch.jit.script(scripted.force)(inputs.requires_grad_()))
        torch.jit.script(scripted.fill)(inputs)
        print(inputs.grad, step())
    """,
    "parameters of one's own are asked for by the script alone": """
        class Counting(nn.Sequential):
            asked = 0
            def named_parameters(self, *args, **kwargs):
                self.asked += 1
                return super().named_parameters(*args, **kwargs)
        counting = Counting(*model)
        print(step(counting), step(counting))
        with torch.no_grad():
            counting.eval()(inputs)
        print(counting.asked)
    """,
    "sizes that are symbols stay symbols": """
        from torch._subclasses import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
        sizes = ShapeEnv()
        with FakeTensorMode(shape_env=sizes) as mode:
            context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
            print(nn.Linear(4, 2)(mode.from_tensor(inputs, symbolic_context=context)).shape, sizes.guards)
        print(step())
    """,
    "a tensor that listens hears what the script does with it": """
        heard = []
        class Listening(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                heard.append(getattr(func, "__name__", func))
                return super().__torch_function__(func, types, args, kwargs or {})
        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                heard.append(getattr(func, "__name__", func))
                return func(*args, **(kwargs or {}))
        batches = DataLoader(inputs, batch_sampler=[[0, 1], [2]], collate_fn=lambda rows: torch.stack(rows))
        with Mode():
            print(step(), [len(rows) for rows in batches])
        heard.append("then")
        inputs = inputs.as_subclass(Listening)
        print(step(), heard)
        print(nn.Module.__call__.__module__)
    """,
    "anomaly mode": """
        with torch.autograd.detect_anomaly(check_nan=True):
            print(step())
            try:
                (model(inputs).sum() * torch.tensor(float("nan"))).backward()
            except RuntimeError as error:
                print(str(error)[:60])
    """,
    "gc callbacks and counts of one's own": """
        seen = []
        gc.callbacks.append(lambda when, info: seen.append(when))
        gc.collect(); print(step(), seen[:2], gc.isenabled(), gc.get_threshold())
    """,
    "a class with a call of its own": """
        class Mine(nn.Linear):
            def __call__(self, *args): return super().__call__(*args) * 2
        torch.manual_seed(1); own = Mine(4, 1)
        print(step(own), type(own).__call__.__qualname__, nn.Module.__call__.__name__)
    """,
    "LBFGS with a closure": """
        lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=4)
        def closure():
            lbfgs.zero_grad(); loss = model(inputs).square().mean(); loss.backward(); return loss
        print([lbfgs.step(closure).item().hex() for _ in range(3)])
    """,
    "an optimizer that calls super().step()": """
        class Mine(torch.optim.Adam):
            def step(self, closure=None): return super().step(closure)
        own = Mine(model.parameters(), lr=0.1); print(step(), step(optimizer=own), step(optimizer=own))
    """,
    "schedulers and a scaler around the optimizer": """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        scaler = torch.amp.GradScaler("cpu", enabled=True)
        for _ in range(4):
            optimizer.zero_grad(); scaler.scale(model(inputs).mean()).backward()
            scaler.step(optimizer); scaler.update(); scheduler.step()
        print(optimizer.param_groups[0]["lr"], step())
    """,
    "fork after use": """
        print(step(), flush=True)
        child = os.fork()
        if not child:
            print(step(), flush=True); os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sys.getswitchinterval(), step())
    """,
    "a training thread": """
        out = []
        threads = [threading.Thread(target=lambda: out.append(step())) for _ in range(3)]
        for thread in threads: thread.start(); thread.join()
        print(out)
    """,
    "exceptions pass through": """
        class Bad(Dataset):
            def __len__(self): return 4
            def __getitem__(self, i): raise KeyError(i)
        for broken in (lambda: next(iter(DataLoader(Bad()))), lambda: model(inputs, 1), lambda: torch.save(),
                       lambda: torch.autograd.backward(3), lambda: optimizer.step(1, 2, 3)):
            try: broken()
            except Exception as error: print(type(error).__name__, str(error).splitlines()[0][:70])
        try: model(inputs).backward()
        except RuntimeError as error: print(error)
    """,
    "an iterable data set that lied about its length": """
        class Stream(IterableDataset):
            def __iter__(self): return iter(range(5))
            def __len__(self): return 2
        warnings.simplefilter("always")
        print([batch.tolist() for batch in DataLoader(Stream(), batch_size=2)])
    """,
    "gradients by hand, checkpointing and functional calls": """
        from torch.utils.checkpoint import checkpoint
        print(torch.autograd.grad(model(inputs).sum(), model[0].bias)[0].sum().item().hex())
        print(step(lambda x: checkpoint(model, x, use_reentrant=False)))
        print(step(lambda x: torch.func.functional_call(model, dict(model.named_parameters()), (x,))))
        print(torch.func.grad(lambda x: model(x).sum())(inputs).sum().item().hex())
    """,
    "fx, jit and export": """
        warnings.simplefilter("ignore")
        print(torch.fx.symbolic_trace(model).code.strip().splitlines()[-1])
        print(step(torch.jit.trace(model, inputs)), step(torch.jit.script(model)))
        print(len(list(torch.export.export(model, (inputs,)).graph.nodes)))
    """,
    "names and signatures": """
        import inspect
        for thing in (torch.save, torch.autograd.backward, torch.optim.Adam.step, nn.utils.clip_grad_norm_,
                      torch.optim.Optimizer.zero_grad):
            print(thing.__name__, thing.__qualname__, thing.__module__, inspect.signature(thing))
        print(pickle.loads(pickle.dumps(torch.save)) is torch.save)
    """,
    "profiler": """
        with torch.profiler.profile() as profile: print(step())
        print(sorted({e.key for e in profile.key_averages() if "#" in e.key}))
    """,
    "random numbers": """
        import random, numpy
        random.seed(3); numpy.random.seed(3)
        for _ in range(30): step()
        print(random.random(), numpy.random.rand(), torch.rand(1).item())
        loader = DataLoader(TensorDataset(inputs), batch_size=3, shuffle=True)
        print([batch[0].shape[0] for batch in loader], torch.rand(1).item())
    """,
}


@pytest.fixture
def both(forked, tmp_path: Path):
    """Runs code in a fork of a process that has torch, watched and not; returns the watched run."""

    def run(code: str, **options: object):
        script = tmp_path / "snippet.py"
        script.write_text(code)
        plain = forked(script, watched=False)
        done = forked(script, **options)
        assert (done.code, done.out, timeless(done.err)) == (plain.code, plain.out, timeless(plain.err))
        assert plain.out, plain.err
        return done

    return run


def timeless(text: str) -> str:
    """Without the clock and process number of torch's log lines."""
    return re.sub(r"^(W|USDT:)[\d: .-]+", "", text, flags=re.MULTILINE)


def dedented(code: str) -> str:
    lines = code.strip("\n").splitlines()
    return "\n".join(line[8:] for line in lines) + "\n"


@pytest.mark.parametrize("name", SNIPPETS)
def test_behaves_as_before(name: str, both) -> None:
    done = both(TRAINING + dedented(SNIPPETS[name]))
    assert done.code == 0, done.err
    for process in done.processes:
        assert process.hook_failures == ()


def test_a_step_through_super_is_one_tick(both) -> None:
    done = both(TRAINING + dedented(SNIPPETS["an optimizer that calls super().step()"]))
    assert done.record.optimizer_steps == (1, 2)


def test_the_thread_that_trains_is_the_training_thread(both) -> None:
    code = "model(inputs)\nout = []\ndef work(): out.extend(step() for _ in range(5))\n"
    code += "t = threading.Thread(target=work)\n"
    done = both(TRAINING + code + "t.start(); t.join(); print(out)\n")
    assert done.record.last.ticks == 5
    assert done.record.last.phase("backward") > 0


COMPILED = """
torch._dynamo.reset()
from torch._dynamo.utils import counters
{prepare}
compiled = torch.compile({target}, fullgraph={fullgraph}, backend="{backend}")
print([step(compiled) for _ in range(4)], step(model))
print(dict(counters["stats"]), sum(counters["graph_break"].values()))
"""
OWN = """
class Own(nn.Module):
    def __init__(self):
        super().__init__(); self.inner = model
    def forward(self, x):
        return self.inner(x).tanh() + model[0](x).mean()
own = Own()
"""
TARGETS = {
    "model": ("model", ""),
    "function": ("lambda x: model(x) * 2", ""),
    "named range": (
        "named",
        "def named(x):\n    with torch.profiler.record_function('mine'): return model(x)",
    ),
    "own module": ("own", OWN),
    "own call": (
        "doubled",
        OWN + "class Doubled(Own):\n"
        "    def __call__(self, x): return 2 * super().__call__(x)\ndoubled = Doubled()",
    ),
    "clipping": ("clip", "def clip(x):\n    nn.utils.clip_grad_norm_([x], 1.0)\n    return model(x)"),
    "copies and casts": ("cast", "def cast(x): return model(x.to(torch.float32).clone().cpu()) + x.mean()"),
}


@pytest.mark.parametrize(
    ("target", "backend"), [("model", "aot_eager"), *((target, "eager") for target in TARGETS)]
)
def test_compiled_without_a_graph_break(target: str, backend: str, both) -> None:
    name, prepare = TARGETS[target]
    code = COMPILED.format(prepare=prepare, target=name, fullgraph=True, backend=backend)
    done = both(TRAINING + code)
    assert done.code == 0, done.err
    assert done.record.last.ticks == 5
    assert done.record.last.phase("compile") > 0


BREAKS = {
    "around the model": "def broken(x):\n    y = model(x); print(y.shape); return model(x) + y.mean().item()",
    "in a module of a module": OWN.replace("return", "print('broken', flush=True); return")
    + "class Outer(nn.Module):\n    def forward(self, x): return own(x) + own.inner(x)\nbroken = Outer()",
    "in an environment": "import gymnasium\nclass Env(gymnasium.Env):\n"
    "    def step(self, x): print(len(x)); return model(x)\nenv = Env()\n"
    "def broken(x): return env.step(x) + 1",
}


@pytest.mark.parametrize("place", BREAKS)
def test_compiled_with_a_graph_break(place: str, both) -> None:
    code = COMPILED.format(prepare=BREAKS[place], target="broken", fullgraph=False, backend="eager")
    done = both(TRAINING + code)
    assert done.code == 0, done.err
    assert done.record.last.ticks == 5


STEPS = {
    "a whole step": "fast = torch.compile(step, backend='eager')\nprint(fast(), fast(), fast())",
    "the optimizer's step": "fast = torch.compile(optimizer.step, backend='eager')\nstep(); fast(); fast()",
    "a function with it": "fast = torch.compile(lambda: optimizer.step(), backend='eager')\nstep(); fast()",
    "a module in place": OWN + "own.compile(backend='eager', fullgraph=True); print(step(own), step(own))",
    "a step of an environment": "import gymnasium\nclass Env(gymnasium.Env):\n"
    "    def step(self, x): return model(x)\nenv = Env()\n"
    "fast = torch.compile(env.step, backend='eager', fullgraph=True)\nprint(step(fast), step(fast))",
}


@pytest.mark.parametrize("what", STEPS)
def test_compiled_step(what: str, both) -> None:
    """The same graphs, the same breaks, the same losses."""
    code = f"from torch._dynamo.utils import counters\nwarnings.simplefilter('ignore')\n{STEPS[what]}\n"
    code += "print(step(), dict(counters['stats']), sum(counters['graph_break'].values()))\n"
    done = both(TRAINING + code)
    assert done.code == 0, done.err
    assert not done.record.hook_failures


FAKE_DEVICE = """
import torch
torch.cuda.is_initialized = lambda: True
"""
JUDGE = """
from _stoker_inside.hooks import transfers
transfers.getattr = lambda value, *_: getattr(value, "dtype", None) is __import__("torch").float64
"""
TRANSFERS = """
step()
for _ in range(3):
    there = inputs.to(torch.float64)  # a copy to the device
    back = there.to(torch.float32)    # waits for it
    there.sum().item()                # waits
    inputs.sum().item()               # no device, no wait
    step()
print("done", torch.Tensor.item.__name__)
"""


def test_transfers_are_timed_with_their_line(both) -> None:
    """A float64 tensor plays the device."""
    code = TRAINING + TRANSFERS
    done = both(code, before=FAKE_DEVICE, after=JUDGE)
    record = done.record
    lines = code.splitlines()
    found = {
        (b.phase, lines[b.place.user[1] - 1].strip().split("#")[0].strip(), b.count) for b in record.blocking
    }
    assert found == {
        ("h2d", "there = inputs.to(torch.float64)", 3),
        ("sync", "back = there.to(torch.float32)", 3),
        ("sync", "there.sum().item()", 3),
    }
    for phase in ("h2d", "sync"):
        told = sum(b.total_s for b in record.blocking if b.phase == phase)
        assert record.last.phase(phase) == pytest.approx(told, abs=1e-4)


@pytest.mark.parametrize("target", ["model", "copies and casts"])
def test_compiled_while_transfers_are_timed(target: str, both) -> None:
    """The patches on Tensor come off while torch traces, and are on again after."""
    name, prepare = TARGETS[target]
    code = COMPILED.format(prepare=prepare, target=name, fullgraph=True, backend="eager")
    done = both(TRAINING + code + TRANSFERS, before=FAKE_DEVICE, after=JUDGE)
    assert done.code == 0, done.err
    assert sum(b.count for b in done.record.blocking) == 9
    assert not done.record.hook_failures


def test_own_patch_of_a_tensor_method_survives_a_compilation(both) -> None:
    code = "real = torch.Tensor.tolist\ncalls = []\n"
    code += "def mine(self): calls.append(1); return real(self)\ntorch.Tensor.tolist = mine\n"
    code += COMPILED.format(prepare="", target="model", fullgraph=True, backend="eager")
    code += "inputs.tolist(); print(len(calls), torch.Tensor.tolist is mine)\n"
    both(TRAINING + code, before=FAKE_DEVICE, after=JUDGE)
