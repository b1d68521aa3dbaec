"""What a process tells of itself, row by row: once a second by the pulse, and a last time at its end.

It reads what the recorder, the hooks and the pulse have gathered, remembers what is written already, and
leaves the files to the writer. While it trains, only the pulse's thread comes here.
"""

import os
import sys
import threading

from . import wire
from .originals import perf_counter
from .pulse import LINES_S
from .ticks import Ticks

WORKER_S = 10.0
LINES_MAX_S = 300.0
JUMPS_TELL = sys.version_info >= (3, 11)
"""An older Python has other jumps, or lets go of the interpreter anywhere."""


class Telling:
    def __init__(self, agent):
        self.agent = agent
        self.ticks = Ticks()
        self.median_s = None
        self.lines_at = 0.0
        self.sequence_written = 1  # the first is None
        self.optimizers_written = 0
        self.marks_written = 0
        self.hooks_written = set()
        self.knobs_written = self.rank_written = None

    def flush(self, last=False):
        agent, now = self.agent, perf_counter()
        if agent.worker_process:
            self._flush_worker(now, last)
            return
        recorder, writer = agent.recorder, agent.writer
        ticks = self.ticks.take(recorder.take_tick_rows())
        dropped, recorder.ticks_dropped = recorder.ticks_dropped, 0
        self._median(ticks)
        writer.tick_rows(ticks, self.median_s)
        self._second(*recorder.snapshot_from_outside(), ticks)
        agent.threads.look(now, (recorder.owner, agent.pulse.ident))
        agent.pulse.shared = agent.threads.wanting > 0.5
        self._marks()
        self._optimizers()
        agent.look_for_names()
        for row in agent.devices.rows(now, last):
            writer.row(wire.DEVICE, row)
        self._deep(last)
        self._settle_syncs(last)
        self.tell_failed_hooks()
        self._knobs()
        self._rank()
        if last or now - self.lines_at >= self._lines_interval_s(now):
            self.lines_at = now
            self._seldom(last)
        writer.lost += dropped
        writer.report_lost()
        recorder.want_shapes = [True, True]
        recorder.thinning.review()

    def _lines_interval_s(self, now):
        """These rows are cumulative and may be long: the longer the run, the less often."""
        return min(LINES_MAX_S, max(LINES_S, (now - self.agent.born) / 50))

    def _seldom(self, last):
        self._counts()
        self._loaders()
        self._lines(last)
        self._sequence()
        self._lead()
        self._threads()

    # -- a loader's worker -----------------------------------------------------------------------------

    def _flush_worker(self, now, last):
        """A loader's workers come and go with each epoch: they share one file, a line at a time."""
        if not last and now - self.lines_at < WORKER_S:
            return
        self.lines_at = now
        agent = self.agent
        row = {
            "t": round(now, 6),
            "pid": os.getpid(),
            "lines": self._fetching(),
            "hooks": agent.failed_hooks(),
        }
        if agent.worker is not None:
            row.update(agent.worker.row())
        agent.writer.shared_row("workers-%d.jsonl" % _creator(), {"schema": wire.WORKER_SCHEMA, **row})

    def _fetching(self):
        """The five lines most often seen while a batch was fetched."""
        pulse, places = self.agent.pulse, self.agent.places
        pulse.settle(last=True)
        fetching = [item for item in pulse.lines.items() if item[0][0] == wire.DATA]
        lines = sorted(fetching, key=lambda item: -item[1])[:5]
        known = {place["id"]: place for place in places.new}
        return [[known[key[2]]["leaf"], known[key[2]]["user"], n] for key, n in lines if key[2] in known]

    # -- each second -----------------------------------------------------------------------------------

    def _median(self, ticks):
        durations = sorted(duration for _, duration, _ in ticks[-201:])
        if durations:
            middle = durations[len(durations) // 2]
            # Slowly, so that one second full of stalls does not make stalls normal.
            self.median_s = middle if self.median_s is None else 0.9 * self.median_s + 0.1 * middle

    def _second(self, snapshot, env_calls, steps, ticks):
        recorder = self.agent.recorder
        durations = [duration for _, duration, _ in ticks]
        given, recorder.given = recorder.given, None
        asked, recorder.asked = recorder.asked, []
        self.agent.writer.row(
            wire.SECOND,
            {
                **self._sums(snapshot),
                "stage": recorder.stage,
                "acting_s": round(recorder.acting(), 6),
                "tick_max_s": round(max(durations), 6) if durations else None,
                "env_calls": env_calls,
                "steps": steps,
                "batch_rows": recorder.batch_rows,
                "given": given,
                "asked": asked,
                "pulse_s": round(self.agent.pulse.cost_s, 6),
                "closely_frac": round(recorder.thinning.closely_frac, 3),
            },
        )

    # -- what is new -----------------------------------------------------------------------------------

    def _marks(self):
        marks = self.agent.recorder.marks
        for stage, snapshot in marks[self.marks_written :]:
            self.agent.writer.row(wire.MARK, {"stage": stage, **self._sums(snapshot)})
        self.marks_written = len(marks)

    def _optimizers(self):
        hook = self.agent.hook("optimizer")
        names = hook.names if hook is not None else []
        for index in range(self.optimizers_written, len(names)):
            row = {"id": index, "name": names[index], "elements": hook.elements[index]}
            self.agent.writer.row(wire.OPTIMIZER, row)
        self.optimizers_written = len(names)

    def tell_failed_hooks(self):
        for failed in self.agent.failed_hooks():
            if failed["name"] not in self.hooks_written:
                self.hooks_written.add(failed["name"])
                self.agent.writer.row(wire.HOOK, failed)

    def _knobs(self):
        agent = self.agent
        if agent.knobs is None:
            return
        try:
            row = agent.knobs.row()
            if row != self.knobs_written:
                self.knobs_written = row
                agent.writer.row(wire.KNOBS, row)
        except Exception as error:  # the rest is written all the same
            agent.knobs = None
            agent.writer.row(wire.HOOK, {"name": "knobs", "error": repr(error)[:500], "when": "telling"})

    def _rank(self):
        self.agent.note_rank()
        if self.agent.rank != self.rank_written:
            self.rank_written = self.agent.rank
            self.agent.writer.row(wire.RANK, self.agent.rank)

    def _deep(self, last):
        hook = self.agent.hook("deep")
        row = hook.take_row(last) if hook is not None else None
        if row is not None:
            self.agent.writer.row(wire.DEEP_WINDOW, row)

    # -- now and then ----------------------------------------------------------------------------------

    def _counts(self):
        entered = dict(zip(wire.PHASES, self.agent.recorder.counts))
        self.agent.writer.row(wire.COUNTS, {"entered": entered, "threads": threading.active_count()})

    def _loaders(self):
        agent = self.agent
        if agent.worker is not None:  # num_workers=0: the training thread fetches
            agent.writer.row(wire.WORKER, agent.worker.row())
        for loader in agent.loaders:
            row = loader.row()
            if row is not None:
                agent.writer.row(wire.LOADER, row)

    def _lines(self, last):
        agent, writer = self.agent, self.agent.writer
        agent.pulse.settle(last)
        for place in agent.places.new:
            writer.row(wire.PLACE, place)
        agent.places.new = []
        pulse = agent.pulse
        looks = {"lines": pulse.lines, "waits": pulse.waits}
        if JUMPS_TELL:
            looks["computes"] = pulse.computes
        writer.row(
            wire.LINES, {"samples": pulse.samples, **{name: _looks(counts) for name, counts in looks.items()}}
        )
        if agent.syncs:
            writer.row(wire.SYNCS, {"syncs": _syncs(agent.syncs)})
        ranges = agent.recorder.range_totals
        if ranges:
            named = {name: [n, round(s, 6)] for name, (n, s) in list(ranges.items())}
            writer.row(wire.RANGES, {"ranges": named})

    def _settle_syncs(self, last):
        hook = self.agent.hook("transfer")
        if hook is not None:
            hook.settle(last)

    def _sums(self, snapshot):
        spread = self.agent.recorder.thinning.spread
        return {
            "t": round(snapshot.time, 6),
            "s": [round(total, 6) for total in spread(snapshot.totals)],
            "ticks": snapshot.ticks,
            "samples": snapshot.samples,
            "env_steps": snapshot.env_steps,
            "backwards": snapshot.backwards,
        }

    def _sequence(self):
        """The last run may still grow: it is told anew each time."""
        start, recorder = self.sequence_written, self.agent.recorder
        runs = [run for run in zip(recorder.symbols[start:], recorder.repeats[start:]) if run[1]]
        if runs:
            self.agent.writer.row(wire.SEQUENCE, {"runs": runs[:-1], "growing": runs[-1]})
            self.sequence_written += len(runs) - 1

    def _lead(self):
        hook = self.agent.hook("lead")
        row = hook.row() if hook is not None else None
        if row is not None:
            self.agent.writer.row(wire.LEAD, row)

    def _threads(self):
        row = self.agent.threads.row(self.agent.recorder.owner)
        if row is not None:
            self.agent.writer.row(wire.THREADS, row)


def _looks(counts):
    return [[wire.PHASES[phase], stage, place, n] for (phase, stage, place), n in list(counts.items())]


def _syncs(syncs):
    return [
        [wire.PHASES[phase], place, n, round(s, 6), stage]
        for (phase, stage, place), (n, s) in list(syncs.items())
    ]


def _creator():
    """The process that made this worker; with a fork server it is not the parent."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    parent = multiprocessing.parent_process() if multiprocessing else None
    return parent.pid if parent else os.getppid()
