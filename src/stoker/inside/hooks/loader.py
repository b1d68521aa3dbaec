"""`data`: the main process waiting for a batch, per DataLoader, and how full its queue was."""

import functools
import sys
import weakref
from collections import deque

from ..dynamo import tracing_check
from ..originals import get_ident as _get_ident
from ..originals import perf_counter
from ..wire import DATA, EVAL
from .base import Hook, without_overrides

LOADERS_MAX = 64
MADE_MAX = 1024
"""Made, and perhaps not read from yet."""
WRAPPED_MAX = 8


class Loaders:
    """The DataLoaders of this process. One that is made anew for each epoch is one loader all the same."""

    def __init__(self):
        self._all = []
        self._made = deque(maxlen=MADE_MAX)

    def __iter__(self):
        return iter(list(self._all))

    def known(self, loader):
        for known in self._all:
            if known.loader() is loader:
                return known
        return None

    def of(self, loader):
        known = self.known(loader)
        if known is not None:
            return known
        facts, made = _facts(loader), self._made_at(loader)
        for known in self._all:
            if known.loader() is None and known.facts == facts or known.number == LOADERS_MAX - 1:
                known.take(loader, facts, made)
                return known
        self._all.append(Loader(len(self._all), loader, facts, made))
        return self._all[-1]

    def note_made(self, loader, place):
        self._made.append((weakref.ref(loader), place))

    def _made_at(self, loader):
        return next((place for made, place in list(self._made) if made() is loader), 0)


class Loader:
    """One DataLoader as the main process sees it; sums are cumulative."""

    def __init__(self, number, loader, facts, made):
        self.number = number
        self.take(loader, facts, made)
        self.epochs = 0
        self.batches = 0
        self.wait_s = 0.0
        self.wait_max_s = 0.0
        self.open_s = 0.0
        self.depth_sum = 0
        self.depth_seen = 0
        self.empty = 0
        self.trains = False  # there were ticks in its last pass: there will be some in the next
        self.ticks_before = 0
        self._written = -1

    def take(self, loader, facts, made):
        self.loader = weakref.ref(loader)
        self.facts = facts
        self.made = made
        self.batch_size = loader.batch_size
        self.last_size = _last_size(loader)
        known = self.last_size is None and (loader.drop_last or _knows_its_length(loader))
        self.samples = self.batch_size if known else None  # of any batch

    def note_depth(self, iterator):
        """Batches waiting to be taken. Zero means that the training is about to wait."""
        ready = iterator._task_info.get(iterator._rcvd_idx, ())
        depth = iterator._data_queue.qsize() + (1 if len(ready) == 2 else 0)
        self.depth_seen += 1
        self.depth_sum += depth
        if depth == 0:
            self.empty += 1

    def samples_of(self, iterator, batch):
        if not self.batch_size or not self.last_size:
            with without_overrides():
                return _rows_of(batch) or self.batch_size or 1
        if getattr(iterator, "_num_yielded", None) == self.facts["length"]:
            return self.last_size
        return self.batch_size

    def row(self):
        if self.batches + self.epochs == self._written:
            return None
        self._written = self.batches + self.epochs
        return {
            "id": self.number,
            **self.facts,
            "made": self.made,
            "epochs": self.epochs,
            "batches": self.batches,
            "wait_s": round(self.wait_s, 6),
            "wait_max_s": round(self.wait_max_s, 6),
            "open_s": round(self.open_s, 6),
            "depth_sum": self.depth_sum,
            "depth_seen": self.depth_seen,
            "empty": self.empty,
        }


class LoaderHook(Hook):
    name = "loader"
    modules = ("torch.utils.data.dataloader",)

    def install(self, module):
        kind = module.DataLoader
        self.patch(kind, "__init__", self.part(_MadeHook).noted(kind.__init__))
        self.patch(kind, "__iter__", self.part(_OpenHook).wrap(kind.__iter__))
        base = module._BaseDataLoaderIter
        self.patch(base, "__next__", self._timed(base.__next__))

    def _timed(self, original):
        """Once a batch, out of cold caches: what `Recorder.enter` and `leave` do is written out here, as in
        `Hook.timed`."""
        hook, recorder, tracing = self, self.recorder, tracing_check()

        @functools.wraps(original)
        def __next__(iterator):
            if tracing() or _get_ident() != recorder.owner and not recorder.adopt():
                return original(iterator)
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                fields = iterator.__dict__
                loader = fields.get("_stoker_loader")
                # (Workers given to it by a knob belong to an iterator of their own.)
                if loader is not None and ("_data_queue" in fields or "_stoker_feeds" in fields):
                    loader.note_depth(fields.get("_stoker_feeds", iterator))
                if recorder.eval_candidate is not None or recorder.stage is EVAL:
                    recorder.batch_asked_for()
                if recorder.collected:
                    recorder.read_collected()
                before, start = recorder.phase, perf_counter()
                recorder.after_model = recorder.modeled = False
                recorder.totals[before] += start - recorder.since
                recorder.counts[DATA] += 1
                recorder.since = start
                recorder.phase = DATA
            except Exception as error:
                hook.fail(error, "call")
                return original(iterator)
            batch, ended = None, False
            try:
                batch = original(iterator)
                return batch
            except StopIteration:
                ended = True
                raise
            finally:
                try:
                    if recorder.collected:
                        recorder.read_collected()
                    now = perf_counter()
                    recorder.totals[recorder.phase] += now - recorder.since
                    recorder.since = now
                    recorder.phase = before
                    if loader is not None:
                        loader.trains = recorder.ticks != loader.ticks_before or bool(recorder.log)
                        if ended and loader.trains:
                            loader.open_s += now - start
                            recorder.batches_ended()
                        elif batch is not None:
                            loader.batches += 1
                            loader.wait_s += now - start
                            if now - start > loader.wait_max_s:
                                loader.wait_max_s = now - start
                            recorder.samples += loader.samples or loader.samples_of(iterator, batch)
                except Exception as error:
                    hook.fail(error, "call")

        return __next__


class _MadeHook(Hook):
    """The line that makes a loader: where its workers are set. Not by another thread while one trains."""

    name = "loader_made"

    def noted(self, original):
        hook, recorder = self, self.recorder

        @functools.wraps(original)
        def __init__(loader, *args, **kwargs):
            original(loader, *args, **kwargs)
            if hook.error is not None or recorder.owner not in (None, _get_ident()):
                return
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                caller = _outside_of_init(type(loader), sys._getframe(1))
                hook.agent.loaders.note_made(loader, hook.agent.places.of(caller))
            except Exception as error:
                hook.fail(error, "call")

        return __init__


class _OpenHook(Hook):
    """`iter(loader)`: starts workers at each epoch unless they persist."""

    name = "loader_open"

    def begin(self, args):
        recorder = self.recorder
        recorder.replay()
        loader = self.agent.loaders.known(args[0])
        if loader is not None and loader.trains:
            recorder.opened = True  # the first call of a model tells
        else:
            recorder.thinning.look_closely()  # an evaluation may begin
        return recorder.data_begins(), recorder.since

    def end(self, token, args, result):
        if token is None:
            return
        before, start = token
        self.recorder.leave(before)
        if result is None:
            return
        loader = self.agent.loaders.of(args[0])
        loader.epochs += 1
        loader.ticks_before = self.recorder.ticks
        loader.open_s += self.recorder.since - start
        result._stoker_loader = loader  # the iterator is never pickled: torch forbids it


def _outside_of_init(kind, frame):
    """Not the `__init__` of a subclass, nor what a library has put around one: who calls those."""
    codes = set()
    for one in kind.__mro__:
        init = vars(one).get("__init__")
        for _ in range(WRAPPED_MAX):
            codes.add(getattr(init, "__code__", None))
            init = getattr(init, "__wrapped__", None)
    while frame.f_code in codes and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _rows_of(batch):
    """Samples of a batch whose loader does not say: rows of the first thing in it that has rows; or None."""
    for _ in range(8):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else None
        if isinstance(batch, dict):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        else:
            return None
    return None


def _last_size(loader):
    """Samples in the last batch of an epoch where it is not a full one; else None."""
    if loader.drop_last or not loader.batch_size or not _knows_its_length(loader):
        return None
    try:
        return len(loader.sampler) % loader.batch_size or None
    except Exception:
        return None  # a sampler without a length


def _length(loader):
    try:
        return len(loader) if _knows_its_length(loader) else None
    except Exception:
        return None  # a sampler without a length


def _is_iterable(loader):
    return bool(getattr(loader, "_dataset_kind", 0))  # torch's _DatasetKind: Map is 0, Iterable 1


def _knows_its_length(loader):
    """Not asked of an iterable data set: torch remembers the answer and warns where it was wrong. Nor of a
    sampler of the user's own, whose length torch never asks for: it may draw random numbers to tell it."""
    if _is_iterable(loader):
        return False
    samplers = (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    return all(one is None or type(one).__module__.partition(".")[0] == "torch" for one in samplers)


def _facts(loader):
    return {
        "num_workers": loader.num_workers,
        "batch_size": loader.batch_size,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": bool(loader.pin_memory),
        "length": _length(loader),
        "iterable": _is_iterable(loader),
        "dataset": type(loader.dataset).__name__,
    }
