"""An agent without hooks, driven by a clock of the test's own: no sleeping, no threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.inside import agent, hooks, pulse, recorder, stages, telling, thinning
from stoker.model.record import ProcessRecord
from stoker.store.inside_files import read_process


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Model:
    def __init__(self, training: bool) -> None:
        self.training = training


class Driven:
    """The recorder is fed as hooks would feed it; `flush` is what the pulse does once a second."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self.clock = folder, clock
        self.agent = agent.Agent(str(folder))
        self.agent.pulse.start = lambda: None  # type: ignore[method-assign]
        self.recorder = self.agent.recorder
        self.optimizer = SimpleOptimizer()

    def spend(self, phase: int, seconds: float) -> None:
        """As a hook would: through the wrapper it puts around a function of the user's."""
        hooks.base.Hook(self.agent).wrap_phase(self.clock.advance, phase)(seconds)

    def model(self, seconds: float, graph: bool = True, training: bool = True) -> None:
        """The outermost call of a model."""
        hook = hooks.modules.ModuleHook(self.agent)
        hook.is_grad_enabled = lambda: graph
        module = Model(training)
        hook._replaced(lambda _, seconds: self.clock.advance(seconds))(module, seconds)

    def model_on(self, work: Callable[[], object]) -> None:
        hook = hooks.modules.ModuleHook(self.agent)
        hook.is_grad_enabled = lambda: True
        hook._replaced(lambda _: work())(Model(True))

    def spend_on(
        self, phase: int, work: Callable[[], object], ends: Callable[..., object] | None = None
    ) -> None:
        hooks.base.Hook(self.agent).wrap_phase(lambda _: work(), phase, ends=ends)(self.optimizer)

    def step(self, seconds: float, inside: Callable[[], object] = lambda: None) -> None:
        """The step of an optimizer, through its wrapper."""

        def work() -> None:
            self.clock.advance(seconds)
            inside()

        self.spend_on(8, work, ends=self.recorder.optimizer_stepped)

    def tick(self, seconds: float = 0.002, phase: int = 7, optimizer: object = None) -> None:
        self.recorder.adopt()
        self.spend(phase, seconds)
        self.recorder.optimizer_stepped(optimizer or self.optimizer)

    def flush(self) -> None:
        self.agent.flush()

    def read(self) -> ProcessRecord:
        (path,) = self.folder.glob("inside/*-0.jsonl")
        record = read_process(path)
        assert record is not None
        return record

    def size_bytes(self, pattern: str = "*") -> int:
        return sum(path.stat().st_size for path in self.folder.glob(f"inside/{pattern}"))


class SimpleOptimizer:
    """Something a weak reference can point to."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    for module in (
        recorder,
        stages,
        pulse,
        thinning,
        agent,
        telling,
        hooks.base,
        hooks.modules,
        hooks.transfers,
    ):
        monkeypatch.setattr(module, "perf_counter", fake)
    monkeypatch.setattr(agent, "wall_time", fake)
    monkeypatch.setattr(agent, "time", SimpleNamespace(clock_gettime=lambda _: fake(), CLOCK_BOOTTIME=7))
    return fake


@pytest.fixture
def driven(tmp_path: Path, clock: Clock) -> Iterator[Driven]:
    made = Driven(tmp_path, clock)
    yield made
    made.agent.writer.close()
