"""One agent per process: owns the recorder, the hooks, the pulse and the files; survives forks.

`start` is called once, just before torch or an environment library is imported. Nothing is opened and no
thread is started until the first hook is called: a process that merely imports torch leaves no trace (but
with `--step`, where no hook may ever be called).
"""

import atexit
import os
import sys
import time

from . import hooks, imports, tape, wire
from .devices import Devices
from .dynamo import hide_code, hide_from_dynamo
from .failure import describe
from .hooks.loader import Loaders
from .imports import find_spec
from .originals import keep_to_ourselves, perf_counter, wall_time
from .places import Places
from .pulse import Pulse
from .recorder import Recorder
from .telling import Telling
from .threads import OtherThreads
from .writer import Writer

__all__ = ["Agent", "find_spec", "report_failure", "start"]

agent = None


def start():
    global agent
    if agent is None and os.environ.get("STOKER_FOLDER"):
        agent = Agent(os.environ["STOKER_FOLDER"])
        agent.install()


def report_failure():
    if agent is not None:
        agent.failed()


class Agent:
    def __init__(self, folder):
        self.folder = folder
        self.recorder = Recorder(self.begin)
        self.hooks = []
        self.knobs = None
        self.on_tensors = []
        self.codes = {}
        self.kept_codes = []
        self.waiting_codes = {}
        self._fresh()

    def _fresh(self):
        """What a new process needs anew; also the child of a fork."""
        self.writer = Writer(self.folder)
        self.places = Places()
        self.pulse = Pulse(self.recorder, self.places, self.flush, self.codes)
        self.writer.calling = self.pulse.calling
        self.worker = None
        self.worker_process = False
        self.loaders = Loaders()
        self.syncs = {}
        self.rank = None
        self.born = perf_counter()
        self.began = self.ended = False
        self.devices = Devices()
        self.threads = OtherThreads(self.places)
        self.telling = Telling(self)

    def install(self):
        imports.after_import("torch", _hide)
        self.hooks = [kind(self) for kind in hooks.HOOKS]
        if os.environ.get("STOKER_DEEP"):
            from .hooks.deep import DeepHook

            self.hooks.append(DeepHook(self))
        self._take_knobs()
        for hook in self.hooks:
            for module in hook.modules:
                imports.after_import(module, hook.install_in)
        os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.end)
        keep_to_ourselves()

    def _take_knobs(self):
        """What is asked for beyond watching. Loaders are changed below our hooks, all else above them."""
        if not os.environ.get("STOKER_KNOBS"):
            return
        try:
            from .knobs import Knobs

            self.knobs = Knobs(self)
            self.hooks = [*self.knobs.inner, *self.hooks, *self.knobs.outer]
        except Exception as error:
            self.pulse.error = repr(error)

    def forked(self):
        self.pulse.wake()
        self.pulse.collections.end()
        tape.forget(self.recorder)
        self.recorder.reset()
        self._fresh()
        for hook in self.hooks:
            hook.forked()

    # -- life of the record ----------------------------------------------------------------------------

    def begin(self):
        """First event in this process: open the files, start the pulse. With `--step` there may be none: it
        begins with the import of torch."""
        self.look_for_names()
        if self.began:
            return
        self.began = True
        try:
            if not self.worker_process:
                self.writer.open(self._header())
            if not sys.is_finalizing():
                self.pulse.start()
            self._end_with_multiprocessing()
        except Exception as error:  # the folder may be gone or unwritable; the training is not ours to stop
            self.pulse.error = repr(error)

    def _end_with_multiprocessing(self):
        """A forked child of multiprocessing leaves by os._exit: without atexit, but with its finalizers."""
        process, util = map(sys.modules.get, ("multiprocessing.process", "multiprocessing.util"))
        if util is not None and process is not None and process.parent_process() is not None:
            util.Finalize(None, self.end, exitpriority=-1000)

    def _header(self):
        torch = sys.modules.get("torch")
        return {
            "schema": wire.SCHEMA,
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "torch": getattr(torch, "__version__", None),
            "phases": wire.PHASES,
            "t": perf_counter(),
            "wall": wall_time(),
            "process_start": _process_start_s(),
            "agent_start": self.born,
            "argv": [str(part)[:500] for part in getattr(sys, "argv", [])][:50],
            "switch_interval_s": sys.getswitchinterval(),
        }

    def end(self):
        """The interpreter is going down in good order."""
        if not self.began or self.ended:
            return
        self.ended = True
        self.pulse.stop()
        collector = self.hook("gc")
        if collector is not None:
            collector.take_off()  # it would be called while the interpreter is taken apart
        if self.pulse.lock.acquire(timeout=2.0):
            try:
                self._last_words()
            finally:
                self.writer.close()
                self.pulse.lock.release()

    def _last_words(self):
        """Each by itself: what cannot be told does not keep back the rest."""
        for tell in (
            self._failure,
            self.recorder.training_ended,
            self._flush_last,
            self.telling.tell_failed_hooks,
        ):
            try:
                tell()
            except Exception as error:
                self.pulse.error = repr(error)
        if not self.worker_process:
            self.writer.row(wire.END, {"t": perf_counter()})

    def _flush_last(self):
        self.flush(last=True)
        if not self.worker_process:
            self._names_not_found()

    def _failure(self):
        """Left by the interpreter; or on its way through a child of multiprocessing, whose end this is."""
        error = getattr(sys, "last_value", None) or sys.exc_info()[1]
        if error is not None and not isinstance(error, SystemExit):
            self.writer.row(wire.FAILURE, describe(error, self.places))

    def failed(self):
        """An uncaught exception in a process that recorded nothing else."""
        if not self.began:
            self.began = True
            try:
                self.writer.open(self._header())
                self._failure()
            except Exception:
                return  # no folder to tell it to

    # -- what the hooks and the rows ask for -----------------------------------------------------------

    def flush(self, last=False):
        self.telling.flush(last)

    def waiting_code(self, code, phase):
        """The same code under a name that tells a look at the stack the phase; one for each phase."""
        known = self.waiting_codes.get(phase)
        if known is None:
            known = self.waiting_codes[phase] = code.replace(
                co_name="%s_%s" % (code.co_name, wire.PHASES[phase])
            )
            hide_code(known)
            self._tells(known, phase)
        return known

    def known_as(self, function, phase):
        """On a stack, this function's frame tells the phase."""
        code = getattr(function, "__code__", None)
        if code is not None:
            self._tells(code, phase)

    def _tells(self, code, phase):
        """By identity: Python's hash of a code object reads all of its instructions, each time."""
        if id(code) not in self.codes:
            self.kept_codes.append(code)
        self.codes[id(code)] = phase

    def hook(self, name):
        return next((hook for hook in self.hooks if hook.name == name), None)

    def failed_hooks(self):
        every = [*(part for hook in self.hooks for part in (hook, *hook.parts)), self.devices, self.threads]
        failed = [{"name": h.name, "error": h.error, "when": h.failed_at} for h in every if h.error]
        if self.pulse.error:
            failed.append({"name": "pulse", "error": self.pulse.error, "when": "running"})
        return failed

    def note_rank(self):
        """Once known it stays: a script that destroys its process group at the end has no rank by then."""
        rank = _rank()
        if rank["rank"] is not None or self.rank is None:
            self.rank = rank

    def look_for_names(self):
        hook = self.hook("named")
        if hook is not None:
            hook.look_in_script()

    def _names_not_found(self):
        hook = self.hook("named")
        for name in hook.missing() if hook is not None and hook.error is None else ():
            row = {"name": "named", "error": "nothing called %s was seen here" % name, "when": "the end"}
            self.writer.row(wire.HOOK, row)


def _process_start_s():
    """When this process began, on the clock of `perf_counter`. The kernel counts from boot and through sleep,
    `perf_counter` does not count sleep."""
    try:
        with open("/proc/self/stat", "rb") as handle:
            fields = handle.read().rpartition(b")")[2].split()
        slept_s = time.clock_gettime(time.CLOCK_BOOTTIME) - perf_counter()
        return int(fields[19]) / os.sysconf("SC_CLK_TCK") - slept_s
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _hide(_torch):
    try:
        hide_from_dynamo()
    except Exception:
        return  # a torch that does it another way


def _rank():
    """From torch.distributed where it runs, else from what a launcher put into the environment."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return {"rank": distributed.get_rank(), "world": distributed.get_world_size(), "by": "torch"}
    except Exception:
        return {"rank": None, "world": None, "by": "unreadable"}
    number = os.environ.get("RANK", "")
    world = os.environ.get("WORLD_SIZE", "")
    if number.isdigit():
        return {"rank": int(number), "world": int(world) if world.isdigit() else None, "by": "environment"}
    return {"rank": None, "world": None, "by": "none"}
