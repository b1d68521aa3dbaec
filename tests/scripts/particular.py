"""A training that looks at its own process: `particular.py process|loader|pickle`. Prints what it finds.

Everything it does is allowed, and none of it may come out otherwise under Stoker.
"""

import functools
import gc
import os
import pickle
import signal
import sys
import threading
import time
import weakref

import gymnasium
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Descent(torch.optim.Optimizer):
    """An optimizer of the script's own."""

    def __init__(self, params: object) -> None:
        super().__init__(params, {})  # type: ignore[arg-type]

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for one in group["params"]:
                one.data.sub_(one.grad, alpha=0.01)


def train(seconds: float) -> tuple[weakref.ref[nn.Module], weakref.ref[torch.optim.Optimizer]]:
    model = nn.Linear(4, 1)
    optimizer = Descent(model.parameters())
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        optimizer.zero_grad()
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()
    return weakref.ref(model), weakref.ref(optimizer)


def own_classes() -> list[weakref.ref[type]]:
    """Made and used inside a function, as where they are configured."""

    class Own(gymnasium.Env):  # type: ignore[type-arg]
        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, object]]:  # type: ignore[override]
            return action, 0.0, False, False, {}

        def reset(self, **options: object) -> tuple[int, dict[str, object]]:  # type: ignore[override]
            super().reset()
            return 0, {}

    class OwnDescent(Descent):
        def step(self, closure: object = None) -> None:
            super().step()

    env, model = Own(), nn.Linear(4, 1)
    env.reset()
    env.step(0)
    optimizer = OwnDescent(model.parameters())
    model(torch.ones(2, 4)).mean().backward()
    optimizer.step()
    return [weakref.ref(Own), weakref.ref(OwnDescent)]


def process() -> None:
    model, optimizer = train(3.0)  # long enough for ticks to be passed over
    gc.collect()
    say("gone", model() is None, optimizer() is None)
    classes = [kind for _ in range(3) for kind in own_classes()]
    gc.collect()
    say("classes gone", [kind() is None for kind in classes])
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()
    say("threads", threading.active_count())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    os.kill(os.getpid(), signal.SIGUSR1)
    train(0.3)
    say("waits", signal.sigtimedwait({signal.SIGUSR1}, 10).si_signo == signal.SIGUSR1)  # type: ignore[union-attr]
    os.closerange(3, 64)  # as a daemon does
    logs = [open(f"log{number}", "w") for number in range(12)]  # noqa: SIM115
    train(1.5)
    for number, log in enumerate(logs):
        log.write(f"log {number}\n")
        log.close()
    say("logs", [open(f"log{number}").read() for number in range(12)])  # noqa: SIM115


class Drawn:
    """A sampler whose length is drawn: to ask for it changes what comes."""

    def __iter__(self) -> object:
        return iter([[0, 1, 2], [3, 4]] * 2)

    def __len__(self) -> int:
        return int(torch.randint(3, 5, ()))


def loader() -> None:
    data = TensorDataset(torch.arange(6.0).reshape(6, 1).repeat(1, 4))
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        for (rows,) in DataLoader(data, batch_sampler=Drawn()):  # type: ignore[arg-type]
            optimizer.zero_grad()
            loss = (model(rows) + torch.randn(())).square().mean()
            loss.backward()
            optimizer.step()
            say(len(rows), loss.item().hex())


class Still(gymnasium.Env):  # type: ignore[type-arg]
    """Steps in its class are functions; in the others they are not."""

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, object]]:  # type: ignore[override]
        return action, 0.0, False, False, {}

    def reset(self, **_options: object) -> tuple[int, dict[str, object]]:  # type: ignore[override]
        return 0, {}


class Fixed(Still):
    step = functools.partial(Still.step, None)  # type: ignore[assignment]


class Kept(Still):
    @functools.lru_cache  # noqa: B019
    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, object]]:  # type: ignore[override]
        return action, 0.0, False, False, {}


def pickled() -> None:
    import cloudpickle

    train(0.2)
    env, step, again = cloudpickle.loads(cloudpickle.dumps((Still(), Still.step, Still.step)))
    say("env", env.reset(), env.step(1), type(env).step.__qualname__, step is again)
    say("class", cloudpickle.loads(cloudpickle.dumps(Descent)).__name__)
    say("dump", pickle.loads(pickle.dumps(pickle.dump)) is pickle.dump)
    for clip in (nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_):
        say("clip", pickle.loads(pickle.dumps(clip)) is clip)
    say("partial", Fixed().step(2))
    kept = Kept()
    say("cached", kept.step(3), kept.step(3), Kept.step.cache_info().hits)


if __name__ == "__main__":
    {"process": process, "loader": loader, "pickle": pickled}[sys.argv[1]]()
