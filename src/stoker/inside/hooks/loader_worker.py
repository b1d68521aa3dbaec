"""Inside a DataLoader worker: time and CPU time of fetching, per sample, and of collating.

From the main process alone, slow storage, slow decoding and slow collating cannot be told apart.
"""

import sys
import threading
import time
from time import perf_counter

from ..wire import DATA
from .base import Hook

_get_ident = threading.get_ident


class WorkerTotals:
    def __init__(self, number):
        self.number = number
        self.batches = 0
        self.samples = 0
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.collate_s = 0.0
        self.sample_max_s = 0.0
        self.since = perf_counter()

    def row(self):
        return {
            "worker": self.number,
            "batches": self.batches,
            "samples": self.samples,
            "wall_s": round(self.wall_s, 6),
            "cpu_s": round(self.cpu_s, 6),
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

    def begin(self, args):
        """Totals, and the indices in a form that tells when each one is asked for."""
        totals = self.agent.worker
        if totals is None:
            totals = self.agent.worker = WorkerTotals(_worker_number())
        fetcher, indices = args
        plain = not isinstance(indices, list) or _fetches_at_once(fetcher)
        if not plain:
            timed = _TimedIndices(indices)
            timed.totals = totals
            indices = timed
        recorder = self.recorder
        # A thread of the script's own may fetch ahead: that is counted, but it is not the training's time.
        before = recorder.enter(DATA) if _get_ident() == recorder.owner else None
        return totals, indices, plain, time.thread_time(), before, perf_counter()

    def end(self, token, args, result):
        totals, indices, plain, cpu, before, start = token
        if before is not None:
            self.recorder.leave(before)
        totals.wall_s += perf_counter() - start
        totals.cpu_s += time.thread_time() - cpu
        totals.batches += 1
        if plain:
            totals.samples += len(indices) if hasattr(indices, "__len__") else 1

    def _timed_fetch(self, fetch):
        hook, recorder = self, self.recorder

        def timed_fetch(self, possibly_batched_index):
            try:
                hook.time_collate(self)
                if not recorder.started:
                    recorder.adopt()
                token = hook.begin((self, possibly_batched_index))
            except Exception as error:
                hook.fail(error, "call")
                token = None
            if token is None:
                return fetch(self, possibly_batched_index)
            try:
                return fetch(self, token[1])
            finally:
                try:
                    hook.end(token, None, None)
                except Exception as error:
                    hook.fail(error, "call")

        timed_fetch.__name__, timed_fetch.__qualname__ = fetch.__name__, fetch.__qualname__
        return timed_fetch

    def time_collate(self, fetcher):
        """The fetcher lives in this process alone and is never pickled: its collate may carry a clock."""
        if getattr(fetcher, "_stoker_timed", False) or self.error:
            return
        collate, agent = fetcher.collate_fn, self.agent

        def timed_collate(batch):
            start = perf_counter()
            try:
                return collate(batch)
            finally:
                if agent.worker is not None:
                    agent.worker.collate_s += perf_counter() - start

        fetcher.collate_fn = timed_collate
        fetcher._stoker_timed = True

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
