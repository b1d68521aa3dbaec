"""A deep window: about a second of training under Kineto (CUDA activities only), once per process.

It is opened, closed and taken apart by the training thread at the end of an optimizer's step. From there
until a few ticks after CUPTI is gone is a stage of its own, `deep`: no window and no row of ticks has it.

CUPTI left attached slows a training by 10-30 % for the rest of its life (pytorch #144455; H200, 2026-11).
Kineto detaches it only where TEARDOWN_CUPTI is "1" (read by getenv at the end of a trace, at the end of the
detaching and at the start of the next trace), in a thread of its own, from inside the next call of the CUDA
runtime. So the variable is set just before the window and stays: taken away later, Kineto would attach again
at once, or start the script's own next trace without its callbacks. The call is made by us, when the queue is
empty, until Kineto's thread is gone.

The one synchronise Stoker ever adds is the one at the end of this window, as torch.profiler itself does.
"""

import functools
import os
import sys
import threading

from . import wire
from .deep_trace import Clock, Extract, anchor
from .originals import get_ident, perf_counter, sleep
from .tape import Tape

TRAINED_S = 10.0
LATE_S = 60.0
"""Of training, where counters tell real work: what is left to tell is not worth a tenth of a short run."""
TRAINED_TICKS = 50
LOOK_EVERY = 10
"""Ranks that step together look at the same tick, and so open their windows together."""
LEAD_S = 0.1
"""Kernels queued before the window are not seen: what is counted begins this much later."""
WINDOW_S = 1.0
TICKS_MAX = 2_000
OVERDUE_S = 10.0
OVERDUE_TICKS = 5
SETTLE_TICKS = 3
TEARDOWN_S = 1.0

WAITING, RECORDING, SETTLING, DONE = range(4)


class DeepWindow:
    def __init__(self, recorder, mode, use, write, failed):
        """`mode`: asked, auto or late. `use`: what the script itself does with profilers and CUDA graphs.
        `write(text)` puts the file down and returns its name; `failed(error)` hears what went wrong."""
        self.recorder = recorder
        self.mode = mode
        self.use = use
        self.write = write
        self.failed = failed
        self.state = WAITING
        self.row = None
        self.thread = self.pid = None
        self.enabled = False
        self.guarded = None
        self.tape = None
        self.ticks = []
        self.start = None
        self.stall_s = {}
        self.left = 0

    # -- called by the training thread -----------------------------------------------------------------

    def at_tick(self):
        """True where the tick belongs to the deep stage."""
        if self.state == RECORDING:
            self._tick(self.recorder.tick_end)
            return True
        if self.state == SETTLING:
            self.left -= 1
            if self.left <= 0:
                self.resume()
            return True
        if self.state == WAITING and self._due():
            self._begin(sys.modules["torch"])
        return False

    def _due(self):
        """Where ticks are told of in groups, each is told at once from the moment the time has come."""
        recorder = self.recorder
        between = recorder.ticks % LOOK_EVERY != 0
        if between and not recorder.deferring:
            return False
        if recorder.ticks < TRAINED_TICKS or recorder.stage is not wire.TRAIN:
            return False
        began = next((mark.time for stage, mark in recorder.marks if stage is wire.TRAIN), None)
        if began is None or recorder.since - began < self.after_s:
            return False
        if between:
            recorder.thinning.hold("deep")
        return not between

    @property
    def after_s(self):
        return LATE_S if self.mode == "late" else TRAINED_S

    def _begin(self, torch):
        why = unfit(torch, self.mode, self.use)
        if why is not None:
            self.refuse(why)
        elif not self._capturing(torch):
            self._open(torch)

    def _capturing(self, torch):
        """Into a CUDA graph, here or in another thread: a synchronise would end that."""
        return self.use.capturing > 0 or torch.cuda.is_current_stream_capturing()

    def refuse(self, why):
        self.row = {"state": "not taken", "mode": self.mode, "why": why}
        self._finish()

    def _finish(self):
        self.state = DONE
        self.recorder.at_tick = None
        self.recorder.thinning.let_go("deep")

    def _open(self, torch):
        recorder = self.recorder
        self.thread, self.pid = get_ident(), os.getpid()
        recorder.marks.append((wire.DEEP, recorder.last_tick()))
        recorder.stage = recorder.usual = wire.DEEP
        recorder.thinning.hold("deep")
        self.state = RECORDING
        began = perf_counter()
        os.environ["TEARDOWN_CUPTI"] = "1"
        profile = _profile(torch)
        with _quiet_kineto():
            profile._prepare_trace()
        self.enabled = True
        torch._C._autograd._enable_profiler(profile.config(), profile.kineto_activities)
        self._guard(torch.autograd.profiler.profile)
        self.marks = len(recorder.marks)
        self.anchor = anchor()
        self.opened = perf_counter()
        self.stall_s["prepare"] = self.opened - began
        usual_s = (recorder.since - recorder.marks[0][1].time) / recorder.ticks
        deadline = self.opened + OVERDUE_S + OVERDUE_TICKS * usual_s
        self.tape = Tape(recorder, deadline, self.overdue)
        self.tape.start()

    def _tick(self, now):
        if len(self.recorder.marks) != self.marks:
            self._close("an evaluation began in the window")
            return
        self.ticks.append(now)
        if self.start is None:
            if now - self.opened >= LEAD_S:
                self.start = len(self.ticks) - 1
        elif now - self.ticks[self.start] >= WINDOW_S or len(self.ticks) - self.start > TICKS_MAX:
            self._close("")

    def overdue(self):
        """A hook was called long after the last tick: the window ends there, not at the next tick."""
        if self.state == RECORDING and self._here():
            self.tape.deadline = float("inf")
            self._close_alone("no tick came for %d s" % OVERDUE_S)

    def interrupt(self):
        """The script starts a profiler of its own: ours must be gone."""
        if self.state == RECORDING and self._here():
            self._close_alone("the script started a profiler of its own")

    def _close_alone(self, why):
        """In the middle of somebody else's call: whatever goes wrong is ours."""
        try:
            self._close(why)
        except Exception as error:
            self.failed(error)

    def _here(self):
        return get_ident() == self.thread and os.getpid() == self.pid

    def _close(self, why):
        torch = sys.modules["torch"]
        if self._capturing(torch):
            return  # at the next tick
        self.state, self.left = SETTLING, SETTLE_TICKS
        self.tape.stop()
        began = perf_counter()
        _untimed(torch.cuda.synchronize)()
        last = anchor()
        synced = perf_counter()
        before = _threads()
        results = self._disable(torch)
        disabled = perf_counter()
        self.stall_s.update(sync=synced - began, disable=disabled - synced)
        self.stall_s["teardown"] = _await_teardown(torch, before)
        self._keep(torch, results, Clock(self.anchor, last), why)

    def _disable(self, torch):
        self._unguard()
        self.enabled = False
        return torch._C._autograd._disable_profiler()

    def _keep(self, torch, results, clock, why):
        began = perf_counter()
        if self.start is None or len(self.ticks) - self.start < 2:
            self.row = {"state": "not taken", "mode": self.mode, "why": why or "too few ticks"}
            return
        origin = self.ticks[self.start]
        extract = Extract(clock, int(origin * 1e9))
        events = results.events()
        cuda = getattr(torch._C._autograd.DeviceType, "CUDA", None)
        extract.take_events(events, cuda)
        extract.take_waits(events, cuda)
        extract.take_host(self.tape.spans(), self.ticks[self.start :])
        file = self.write(extract.text())
        self.stall_s["extract"] = perf_counter() - began
        self.row = {
            "state": "taken",
            "mode": self.mode,
            "why": why,
            "t": round(origin, 9),
            "end": round(self.ticks[-1], 9),
            "ticks": len(self.ticks) - 1 - self.start,
            "events": extract.device_events,
            "dropped": extract.dropped,
            "details": extract.detailed,
            "clock_us": round(clock.doubt_ns / 1e3, 3),
            "stall_s": {name: None if s is None else round(s, 6) for name, s in self.stall_s.items()},
            "cuda_graphs": self.use.captures > 0,
            "file": file,
            "names": extract.names.table(),
            "threads": _as_kineto_names(get_ident(), threading.get_native_id()),
        }

    def resume(self):
        """The training runs as before: its stage begins at this tick."""
        recorder = self.recorder
        recorder.marks.append((wire.TRAIN, recorder.last_tick()))
        if recorder.stage is wire.DEEP:
            recorder.stage = wire.TRAIN
        recorder.usual = wire.TRAIN
        self._finish()
        recorder.edge_at_tick()

    def abandon(self):
        """Something failed: nothing of ours stays on. Returns what went wrong in that, too."""
        trouble = None
        if self.tape is not None:
            self.tape.stop()
        self._unguard()
        if self.enabled and self._here():
            self.enabled = False
            try:
                sys.modules["torch"]._C._autograd._disable_profiler()
            except Exception as error:  # it may never have run: torch says so in the same way
                trouble = repr(error)[:200]
        if self.state in (RECORDING, SETTLING):
            self.state, self.left = SETTLING, SETTLE_TICKS
        else:
            self._finish()
        return trouble

    # -- the script's own profiler ---------------------------------------------------------------------

    def _guard(self, profile):
        """Two at a time are an error of torch's, which would be ours."""
        original, window = profile._prepare_trace, self

        @functools.wraps(original)
        def _prepare_trace(*args, **kwargs):
            window.interrupt()
            return original(*args, **kwargs)

        profile._prepare_trace = _prepare_trace
        self.guarded = (profile, original, _prepare_trace)

    def _unguard(self):
        if self.guarded is not None:
            profile, original, ours = self.guarded
            self.guarded = None
            if profile._prepare_trace is ours:
                profile._prepare_trace = original

    # -- called at the end -----------------------------------------------------------------------------

    def end(self):
        """The process ends. A device that hangs must not hang this: nothing is asked of it any more."""
        if self.tape is not None:
            self.tape.stop()
        if self.row is None and self.state != DONE:
            trained = "%g s and %d ticks of training" % (self.after_s, TRAINED_TICKS)
            why = "the process ended in the window" if self.state != WAITING else "there were not " + trained
            self.row = {"state": "not taken", "mode": self.mode, "why": why}

    def forked(self):
        if self.tape is not None:
            self.tape.stop()
        self._unguard()


def unfit(torch, mode, use):
    """Why no window is opened here; None where one may be."""
    c = torch._C._autograd
    version = getattr(torch.version, "cuda", None)
    if version is None:
        return "this torch is built without CUDA"
    if not torch.cuda.is_initialized():
        return "the training does not use CUDA"
    if not any(activity.name == "CUDA" for activity in c._supported_activities()):
        return "this torch cannot profile CUDA (it has no CUPTI)"
    if not hasattr(c._KinetoEvent, "start_ns"):
        return "this torch is older than 2.4"
    if c._profiler_enabled() or use.profilers:
        return "the script has a profiler of its own"
    if os.environ.get("CUDA_INJECTION64_PATH") or os.environ.get("NSYS_PROFILING_SESSION_ID"):
        return "another profiler (Nsight) is attached"
    if os.environ.get("TEARDOWN_CUPTI", "1") != "1" or "DISABLE_CUPTI_LAZY_REINIT" in os.environ:
        return "TEARDOWN_CUPTI is switched off: the training would be slower ever after"
    if use.captures and (mode != "asked" or _number(version) < (12, 6)):
        return "the script uses CUDA graphs" + _graphs_hint(mode, version)
    return None


def _graphs_hint(mode, version):
    """Detaching CUPTI crashed with CUDA graphs up to CUDA 12.5 (pytorch PR 151124)."""
    if _number(version) < (12, 6):
        return ", and detaching the profiler is not safe with them before CUDA 12.6"
    return "; --deep asks for a window nevertheless" if mode != "asked" else ""


def _number(version):
    return tuple(int(part) for part in version.split(".")[:2])


def _profile(torch):
    """torch's own class knows how to configure Kineto in its version; we start and stop by ourselves, since
    it would also tell compiled code that a profiler runs."""
    kinds = torch._C._profiler._ExperimentalConfig
    try:
        config = kinds(expose_kineto_event_metadata=True)
    except TypeError:
        config = None
    return torch.autograd.profiler.profile(
        use_cpu=False, use_device="cuda", use_kineto=True, experimental_config=config
    )


class _quiet_kineto:
    """Kineto announces its traces on stderr, which is the script's. It reads this when first used."""

    def __enter__(self):
        self.ours = "KINETO_LOG_LEVEL" not in os.environ
        if self.ours:
            os.environ["KINETO_LOG_LEVEL"] = "99"

    def __exit__(self, *_):
        if self.ours:
            os.environ.pop("KINETO_LOG_LEVEL", None)


def _as_kineto_names(ident, native):
    """The thread of a call into CUDA: the lower half of pthread's number, or the system's where the profiler
    also sees the CPU (torch 2.11)."""
    low = ident & 0xFFFFFFFF
    return [native, low, low - (1 << 32)]


def _untimed(function):
    """Without our own hook around it: this wait is not the script's."""
    return getattr(function, "__wrapped__", function)


def _threads():
    try:
        return set(os.listdir("/proc/self/task"))
    except OSError:
        return set()


def _await_teardown(torch, before):
    """Seconds until Kineto's thread that detaches CUPTI was gone; None where it stayed."""
    began = perf_counter()
    detaching = _threads() - before
    stream = torch.cuda.current_stream()
    while perf_counter() - began < TEARDOWN_S:
        stream.query()  # any call of the CUDA runtime: CUPTI is detached on the way out of one
        if not detaching & _threads():
            return perf_counter() - began
        sleep(0.002)
    return None
