"""As much of torch, CUDA and Kineto as a deep window touches, on the clock of the test."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from stoker.inside import deep, deep_trace, tape
from stoker.inside.hooks.deep import DeepHook

TICK_S = 0.25
UNIX_NS = 1_700_000_000 * 10**9
"""How far the wall clock is ahead of the test's clock."""


class FakeEvent:
    """A kernel, copy or fill, at a time of the test's clock."""

    def __init__(self, kind, name, start, seconds, stream=7, device=0, metadata=""):
        self.kind, self.label, self.start, self.seconds = kind, name, start, seconds
        self.stream, self.device, self.metadata = stream, device, metadata

    def activity_type(self):
        return self.kind

    def name(self):
        return self.label

    def start_ns(self):
        return round(self.start * 1e9) + UNIX_NS

    def duration_ns(self):
        return round(self.seconds * 1e9)

    def device_type(self):
        return "cpu" if self.kind.startswith("cuda_") else "cuda"

    def device_index(self):
        return self.device

    def device_resource_id(self):
        return self.stream

    def metadata_json(self):
        return self.metadata


class Profile:
    """torch.autograd.profiler.profile"""

    torch: FakeTorch

    def __init__(self, **settings):
        self.settings = settings
        self.kineto_activities = {"CUDA"}

    def _prepare_trace(self):
        self.torch.called("prepare")

    def config(self):
        return "config"


class OwnProfiler:
    """torch.profiler.profile: the script's."""

    def __init__(self, schedule=None):
        self.schedule = schedule

    def stop(self):
        return "stopped"


class Graph:
    def capture_begin(self):
        return "capturing"

    def capture_end(self):
        return "captured"


class FakeTorch:
    def __init__(self, clock):
        self.clock = clock
        self.calls = []
        self.fails = ()
        self.slow_s = {}
        self.capturing = False
        self.enabled = False
        self.events = []
        self.version = SimpleNamespace(cuda="12.8")
        self.cuda = SimpleNamespace(
            is_initialized=lambda: True,
            is_current_stream_capturing=lambda: self.capturing,
            synchronize=lambda: self.called("synchronize"),
            current_stream=lambda: SimpleNamespace(query=lambda: self.called("query")),
            CUDAGraph=type("CUDAGraph", (Graph,), dict(vars(Graph))),
        )
        self.profiler = SimpleNamespace(
            profile=type(
                "profile", (OwnProfiler,), {"__init__": OwnProfiler.__init__, "stop": OwnProfiler.stop}
            )
        )
        profile = type("profile", (Profile,), {"torch": self, "_prepare_trace": Profile._prepare_trace})
        self.autograd = SimpleNamespace(profiler=SimpleNamespace(profile=profile))
        self._C = SimpleNamespace(
            _autograd=SimpleNamespace(
                _supported_activities=lambda: {SimpleNamespace_named("CPU"), SimpleNamespace_named("CUDA")},
                _KinetoEvent=FakeEvent,
                _profiler_enabled=lambda: self.enabled,
                _enable_profiler=self.enable,
                _disable_profiler=self.disable,
                DeviceType=SimpleNamespace(CUDA="cuda"),
            ),
            _profiler=SimpleNamespace(_ExperimentalConfig=lambda **settings: settings),
        )

    event = FakeEvent

    def called(self, name):
        self.calls.append(name)
        self.clock.advance(self.slow_s.get(name, 0.0))
        if name in self.fails:
            raise RuntimeError(f"{name} failed")

    def enable(self, config, activities):
        self.called("enable")
        assert not self.enabled, "two profilers at a time"
        self.enabled = True

    def disable(self):
        self.called("disable")
        self.enabled = False
        return SimpleNamespace(events=self.results)

    def results(self):
        self.called("events")
        return self.events


class SimpleNamespace_named:  # a set holds it, a SimpleNamespace it does not
    def __init__(self, name):
        self.name = name


class Trained:
    """Ticks of a training whose every tick runs one kernel for half of its time."""

    def __init__(self, driven, torch, hook):
        self.driven, self.torch, self.hook = driven, torch, hook
        self.recorder, self.window = driven.recorder, hook.window

    def ticks(self, count, seconds=TICK_S):
        for _ in range(count):
            start = self.driven.clock.now
            if self.torch.enabled:
                text = '"bytes": 0, "blocks per SM": 0.5, "est. achieved occupancy %": 25'
                kernel = FakeEvent("kernel", "gemm", start, seconds / 2, metadata=text)
                self.torch.events.append(kernel)
            self.driven.tick(seconds)

    def read(self):
        self.recorder.training_ended()
        self.driven.agent._flush_last()
        return self.driven.read()


@pytest.fixture
def make(driven, clock, monkeypatch):
    """`make(mode)`: an agent with the hook in, its torch a fake; with `cuda`, that in place of its own."""
    for name in ("TEARDOWN_CUPTI", "KINETO_LOG_LEVEL", "DISABLE_CUPTI_LAZY_REINIT", "CUDA_INJECTION64_PATH"):
        monkeypatch.setenv(name, "")  # put back after the test
        monkeypatch.delenv(name)
    monkeypatch.setattr(deep, "perf_counter", clock)
    monkeypatch.setattr(tape, "perf_counter", clock)
    monkeypatch.setattr(deep_trace, "perf_counter_ns", lambda: round(clock() * 1e9))
    monkeypatch.setattr(deep_trace, "wall_time_ns", lambda: round(clock() * 1e9) + UNIX_NS)

    def made(mode="auto", fault="", cuda=None):
        monkeypatch.setenv("STOKER_DEEP", mode)
        monkeypatch.setenv("STOKER_FAULT", fault)
        torch = FakeTorch(clock)
        monkeypatch.setitem(sys.modules, "torch", torch)
        if cuda is None:
            monkeypatch.setattr(driven.agent.devices, "rows", lambda now, last: ())  # has tests of its own
        else:
            torch.cuda = cuda
        hook = DeepHook(driven.agent)
        driven.agent.hooks.append(hook)
        driven.recorder.adopt()
        hook.install_in(torch)
        return Trained(driven, torch, hook)

    return made
