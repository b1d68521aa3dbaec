"""Inside a DataLoader worker: time and CPU time of fetching, per sample, and of collating.

From the main process alone, slow storage, slow decoding and slow collating cannot be told apart.
"""

import random
import sys

from ..originals import get_ident as _get_ident
from ..originals import perf_counter, thread_time
from ..wire import DATA
from .base import Hook

CLOCKED_FIRST = 8
CLOCKED_EVERY = 16
"""Of the fetches by the training thread the CPU time of the first few is taken, which are often unlike the
rest, and of one in so many after them: the clock, asked twice, takes 7 to 12 microseconds."""


class WorkerTotals:
    def __init__(self, number):
        self.number = number
        self.batches = 0
        self.samples = 0
        self.wall_s = 0.0
        self.first_s = 0.0
        self.first_cpu_s = 0.0
        self.clocked_s = 0.0  # of those after the first whose CPU time was taken
        self.clocked_cpu_s = 0.0
        self.clock_next = 0
        self.random = random.Random(0)  # the script's random numbers are the script's
        self.collate_s = 0.0
        self.sample_max_s = 0.0
        self.since = perf_counter()

    def clocked(self, seconds, cpu_s):
        if self.batches <= CLOCKED_FIRST:
            self.first_s += seconds
            self.first_cpu_s += cpu_s
        else:
            self.clocked_s += seconds
            self.clocked_cpu_s += cpu_s
            self.clock_next = self.batches + int(2 * CLOCKED_EVERY * self.random.random())

    def cpu_s(self):
        """An estimate where not all fetches were clocked."""
        if not self.clocked_s:
            return self.first_cpu_s
        return self.first_cpu_s + self.clocked_cpu_s * (self.wall_s - self.first_s) / self.clocked_s

    def row(self):
        return {
            "worker": self.number,
            "batches": self.batches,
            "samples": self.samples,
            "wall_s": round(self.wall_s, 6),
            "cpu_s": round(self.cpu_s(), 6),
            "collate_s": round(self.collate_s, 6),
            "sample_max_s": round(self.sample_max_s, 6),
            "alive_s": round(perf_counter() - self.since, 6),
        }


class _TimedIndices(list):
    """The indices of a batch. torch asks for them one by one, so the time between is one sample's."""

    __slots__ = ("totals",)

    def __iter__(self):
        totals, last = self.totals, perf_counter()
        for index in list.__iter__(self):
            yield index
            now = perf_counter()
            totals.samples += 1
            if now - last > totals.sample_max_s:
                totals.sample_max_s = now - last
            last = now


class FetchHook(Hook):
    name = "fetch"
    modules = ("torch.utils.data._utils.fetch", "torch.utils.data._utils.worker")

    def install(self, module):
        if module.__name__.endswith(".worker"):
            self.patch(module, "_worker_loop", self._flushing(module._worker_loop))
            return
        for kind in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
            self.patch(kind, "fetch", self._timed_fetch(kind.fetch))

    def _timed_fetch(self, fetch):
        """Where the training thread itself fetches, this runs once a batch, out of cold caches: few calls."""
        hook, recorder, agent = self, self.recorder, self.agent

        def timed_fetch(self, possibly_batched_index):
            indices = possibly_batched_index
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                at_once = self.__dict__.get("_stoker_at_once")
                if at_once is None:
                    at_once = hook.first_of(self)
                totals = agent.worker
                if totals is None:
                    totals = agent.worker = WorkerTotals(_worker_number())
                at_once = at_once or not isinstance(indices, list)
                if not at_once:
                    indices = _TimedIndices(indices)
                    indices.totals = totals
                # A thread of the script's own may fetch ahead: that is counted, but not as the training's.
                ours = recorder.phase != DATA and _get_ident() == recorder.owner
                before = recorder.enter(DATA) if ours else None
                clocked = agent.worker_process or totals.batches >= totals.clock_next
                cpu, start = thread_time() if clocked else None, perf_counter()
            except Exception as error:
                hook.fail(error, "call")
                return fetch(self, possibly_batched_index)
            try:
                return fetch(self, indices)
            finally:
                try:
                    spent_s = perf_counter() - start
                    totals.wall_s += spent_s
                    totals.batches += 1
                    if clocked:
                        totals.clocked(spent_s, thread_time() - cpu)
                    if at_once:
                        totals.samples += len(indices) if hasattr(indices, "__len__") else 1
                    if ours:
                        recorder.leave(before)
                except Exception as error:
                    hook.fail(error, "call")

        timed_fetch.__name__, timed_fetch.__qualname__ = fetch.__name__, fetch.__qualname__
        return timed_fetch

    def first_of(self, fetcher):
        """Does it fetch a batch at once? It lives in this process alone and is never pickled: its collate may
        carry a clock."""
        if not self.recorder.started:
            self.recorder.adopt()
        collate, agent = fetcher.collate_fn, self.agent

        def timed_collate(batch):
            start = perf_counter()
            try:
                return collate(batch)
            finally:
                if agent.worker is not None:
                    agent.worker.collate_s += perf_counter() - start

        fetcher.collate_fn = timed_collate
        fetcher._stoker_at_once = at_once = _fetches_at_once(fetcher)
        return at_once

    def _flushing(self, loop):
        """A worker leaves by os._exit: what it has not written by then is written here."""
        agent = self.agent

        def _worker_loop(*args, **kwargs):
            agent.worker_process = True
            try:
                return loop(*args, **kwargs)
            finally:
                agent.end()

        _worker_loop.__module__, _worker_loop.__qualname__ = loop.__module__, loop.__qualname__
        return _worker_loop


def _fetches_at_once(fetcher):
    return not fetcher.auto_collation or bool(getattr(fetcher.dataset, "__getitems__", None))


def _worker_number():
    info = sys.modules["torch.utils.data"].get_worker_info()
    return None if info is None else info.id
