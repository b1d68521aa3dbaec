"""One agent per process: owns the recorder, the hooks, the pulse and the files; survives forks.

`start` is called once, just before torch or an environment library is imported. Nothing is opened and no
thread is started until the first hook is called: a process that merely imports torch leaves no trace.
"""

import atexit
import os
import sys
import threading
import time

from . import hooks, imports, tape, wire
from .devices import Devices
from .dynamo import hide_code, hide_from_dynamo
from .failure import describe
from .hooks.loader import Loaders
from .imports import find_spec
from .places import Places
from .pulse import LINES_S, Pulse
from .recorder import Recorder, process_start_s
from .thinning import spread
from .ticks import Ticks
from .writer import Writer

__all__ = ["Agent", "find_spec", "report_failure", "start"]

agent = None

WORKER_S = 10.0
LINES_MAX_S = 300.0


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
        self.waiting_codes = {}
        self._fresh()

    def _fresh(self):
        """What a new process needs anew; also the child of a fork."""
        self.writer = Writer(self.folder)
        self.places = Places()
        self.pulse = Pulse(self.recorder, self.places, self.flush, self.codes)
        self.worker = None
        self.worker_process = False
        self.loaders = Loaders()
        self.syncs = {}
        self.rank = self.rank_written = None
        self.born = time.perf_counter()
        self.began = self.ended = False
        self.sequence_written = 1  # the first is None
        self.optimizers_written = 0
        self.marks_written = 0
        self.hooks_written = set()
        self.knobs_written = None
        self.last_lines = 0.0
        self.median_s = None
        self.ticks = Ticks()
        self.devices = Devices()

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
        tape.forget(self.recorder)
        self.recorder.reset()
        self._fresh()
        for hook in self.hooks:
            hook.forked()

    # -- life of the record ----------------------------------------------------------------------------

    def begin(self):
        """First event in this process: open the files, start the pulse."""
        if self.began:
            return
        self.began = True
        self._look_for_names()
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
            "t": time.perf_counter(),
            "wall": time.time(),
            "process_start": process_start_s(),
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
        for tell in (self._failure, self.recorder.training_ended, self._flush_last, self._hooks):
            try:
                tell()
            except Exception as error:
                self.pulse.error = repr(error)
        if not self.worker_process:
            self.writer.row(wire.END, {"t": time.perf_counter()})

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

    # -- writing ---------------------------------------------------------------------------------------

    def flush(self, last=False):
        recorder, writer = self.recorder, self.writer
        now = time.perf_counter()
        if self.worker_process:
            self._flush_worker(now, last)
            return
        ticks = self.ticks.take(recorder.take_tick_rows())
        dropped, recorder.ticks_dropped = recorder.ticks_dropped, 0
        self._median(ticks)
        writer.tick_rows(ticks, self.born, self.median_s)
        self._second(recorder.snapshot_from_outside(), ticks)
        self._marks()
        self._optimizers()
        self._look_for_names()
        for row in self.devices.rows(now, last):
            writer.row(wire.DEVICE, row)
        self._deep(last)
        self._hooks()
        self._knobs()
        self._rank()
        if last or now - self.last_lines >= self._lines_interval_s(now):
            self.last_lines = now
            self._counts()
            self._loaders()
            self._lines(last)
            self._sequence()
            self._lead()
        writer.lost += dropped
        writer.report_lost()
        recorder.want_shape = True
        recorder.thinning.review()

    def _lines_interval_s(self, now):
        """These rows are cumulative and may be long: the longer the run, the less often."""
        return min(LINES_MAX_S, max(LINES_S, (now - self.born) / 50))

    def _second(self, snapshot, ticks):
        recorder = self.recorder
        durations = [duration for _, duration, _ in ticks]
        self.writer.row(
            wire.SECOND,
            {
                **_sums(snapshot),
                "stage": recorder.stage,
                "acting_s": round(recorder.acting(), 6),
                "tick_max_s": round(max(durations), 6) if durations else None,
                "env_calls": recorder.env_calls,
                "steps": recorder.steps,
                "batch_rows": recorder.batch_rows,
                "pulse_s": round(self.pulse.cost_s, 6),
                "closely_frac": round(recorder.thinning.closely_frac, 3),
            },
        )

    def _flush_worker(self, now, last):
        """A loader's workers come and go with each epoch: they share one file, a line at a time."""
        if last or now - self.last_lines >= WORKER_S:
            self.last_lines = now
            self.pulse.settle(last=True)
            fetching = [item for item in self.pulse.lines.items() if item[0][0] == wire.DATA]
            lines = sorted(fetching, key=lambda item: -item[1])[:5]
            places = {place["id"]: place for place in self.places.new}
            shown = [
                [places[key[2]]["leaf"], places[key[2]]["user"], n] for key, n in lines if key[2] in places
            ]
            row = {"t": round(now, 6), "pid": os.getpid(), "lines": shown, "hooks": self.failed_hooks()}
            if self.worker is not None:
                row.update(self.worker.row())
            self.writer.shared_row("workers-%d.jsonl" % _creator(), {"schema": wire.WORKER_SCHEMA, **row})

    def _median(self, ticks):
        durations = sorted(duration for _, duration, _ in ticks[-201:])
        if durations:
            middle = durations[len(durations) // 2]
            # Slowly, so that one second full of stalls does not make stalls normal.
            self.median_s = middle if self.median_s is None else 0.9 * self.median_s + 0.1 * middle

    def _marks(self):
        marks = self.recorder.marks
        for stage, snapshot in marks[self.marks_written :]:
            self.writer.row(wire.MARK, {"stage": stage, **_sums(snapshot)})
        self.marks_written = len(marks)

    def _optimizers(self):
        hook = self.hook("optimizer")
        names = hook.names if hook is not None else []
        for index in range(self.optimizers_written, len(names)):
            row = {"id": index, "name": names[index], "elements": hook.elements[index]}
            self.writer.row(wire.OPTIMIZER, row)
        self.optimizers_written = len(names)

    def waiting_code(self, code, phase):
        """The same code under a name that tells a look at the stack the phase; one for each phase."""
        known = self.waiting_codes.get(phase)
        if known is None:
            known = self.waiting_codes[phase] = code.replace(
                co_name="%s_%s" % (code.co_name, wire.PHASES[phase])
            )
            hide_code(known)
            self.codes[known] = phase
        return known

    def known_as(self, function, phase):
        """On a stack, this function's frame tells the phase."""
        code = getattr(function, "__code__", None)
        if code is not None:
            self.codes[code] = phase

    def hook(self, name):
        return next((hook for hook in self.hooks if hook.name == name), None)

    def _loaders(self):
        if self.worker is not None:  # num_workers=0: the training thread fetches
            self.writer.row(wire.WORKER, self.worker.row())
        for loader in self.loaders:
            row = loader.row()
            if row is not None:
                self.writer.row(wire.LOADER, row)

    def _hooks(self):
        for failed in self.failed_hooks():
            if failed["name"] not in self.hooks_written:
                self.hooks_written.add(failed["name"])
                self.writer.row(wire.HOOK, failed)

    def _knobs(self):
        if self.knobs is None:
            return
        try:
            row = self.knobs.row()
            if row != self.knobs_written:
                self.knobs_written = row
                self.writer.row(wire.KNOBS, row)
        except Exception as error:  # the rest is written all the same
            self.knobs = None
            self.writer.row(wire.HOOK, {"name": "knobs", "error": repr(error)[:500], "when": "telling"})

    def failed_hooks(self):
        every = [*(part for hook in self.hooks for part in (hook, *hook.parts)), self.devices]
        failed = [{"name": h.name, "error": h.error, "when": h.failed_at} for h in every if h.error]
        if self.pulse.error:
            failed.append({"name": "pulse", "error": self.pulse.error, "when": "running"})
        return failed

    def note_rank(self):
        """Once known it stays: a script that destroys its process group at the end has no rank by then."""
        rank = _rank()
        if rank["rank"] is not None or self.rank is None:
            self.rank = rank

    def _look_for_names(self):
        hook = self.hook("named")
        if hook is not None:
            hook.look_in_script()

    def _names_not_found(self):
        hook = self.hook("named")
        for name in hook.missing() if hook is not None and hook.error is None else ():
            row = {"name": "named", "error": "nothing called %s was seen here" % name, "when": "the end"}
            self.writer.row(wire.HOOK, row)

    def _deep(self, last):
        hook = self.hook("deep")
        row = hook.take_row(last) if hook is not None else None
        if row is not None:
            self.writer.row(wire.DEEP_WINDOW, row)

    def _lead(self):
        hook = self.hook("lead")
        row = hook.row() if hook is not None else None
        if row is not None:
            self.writer.row(wire.LEAD, row)

    def _rank(self):
        self.note_rank()
        if self.rank != self.rank_written:
            self.rank_written = self.rank
            self.writer.row(wire.RANK, self.rank)

    def _counts(self):
        row = {"entered": dict(zip(wire.PHASES, self.recorder.counts)), "threads": threading.active_count()}
        self.writer.row(wire.COUNTS, row)

    def _lines(self, last):
        self.pulse.settle(last)
        for place in self.places.new:
            self.writer.row(wire.PLACE, place)
        self.places.new = []
        lines = [[wire.PHASES[p], stage, place, n] for (p, stage, place), n in list(self.pulse.lines.items())]
        self.writer.row(wire.LINES, {"samples": self.pulse.samples, "lines": lines})
        if self.syncs:
            table = [
                [wire.PHASES[p], place, n, round(s, 6), stage]
                for (p, stage, place), (n, s) in list(self.syncs.items())
            ]
            self.writer.row(wire.SYNCS, {"syncs": table})
        if self.recorder.range_totals:
            named = {name: [n, round(s, 6)] for name, (n, s) in list(self.recorder.range_totals.items())}
            self.writer.row(wire.RANGES, {"ranges": named})

    def _sequence(self):
        """The last run may still grow: it is told anew each time."""
        start, recorder = self.sequence_written, self.recorder
        runs = [run for run in zip(recorder.symbols[start:], recorder.repeats[start:]) if run[1]]
        if runs:
            self.writer.row(wire.SEQUENCE, {"runs": runs[:-1], "growing": runs[-1]})
            self.sequence_written += len(runs) - 1


def _hide(_torch):
    try:
        hide_from_dynamo()
    except Exception:
        return  # a torch that does it another way


def _creator():
    """The process that made this worker; with a fork server it is not the parent."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    parent = multiprocessing.parent_process() if multiprocessing else None
    return parent.pid if parent else os.getppid()


def _sums(snapshot):
    return {
        "t": round(snapshot.time, 6),
        "s": [round(total, 6) for total in spread(snapshot.totals)],
        "ticks": snapshot.ticks,
        "samples": snapshot.samples,
        "env_steps": snapshot.env_steps,
        "backwards": snapshot.backwards,
    }


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
