"""`num_workers`, `prefetch_factor`, `persistent_workers`, `pin_memory`: decided when a loader is opened.

The order of samples must not change, and that order comes from torch's random stream: a loader draws a seed
for its workers when it is opened, and its sampler draws one when it is first asked, which is at once where
there are workers and at the first batch where there are none. So a loader the script has without workers is
opened without them, and gets its workers at its first batch. Should that first batch fail, the loader goes
on as the script has it, from the same place in the random stream.
"""

import functools
import sys
import weakref

from ..hooks.base import Hook
from .base import Account

FIRST_BATCH_S = 300.0
_NAMES = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory")
_UNUSED = "no DataLoader was opened"


class LoaderKnob(Account):
    unused = _UNUSED

    def __init__(self, name, value):
        self.knob = name
        super().__init__(value)


class LoaderKnobs(Hook):
    name = "knob_loader"
    modules = ("torch.utils.data.dataloader",)

    def __init__(self, agent, values):
        super().__init__(agent)
        self.by_name = {name: LoaderKnob(name, values[name]) for name in _NAMES if name in values}
        self.told = list(self.by_name.values())
        self.scripts = weakref.WeakKeyDictionary()

    def forked(self):
        for knob in self.told:
            knob.clear()

    def fail(self, error, when):
        super().fail(error, when)
        for knob in self.told:
            knob.error = self.error

    def install(self, module):
        if not self.told:
            return
        self.module = module
        original = module.DataLoader.__iter__
        hook = self

        @functools.wraps(original)
        def __iter__(loader):
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                plan = hook.plan(loader)
            except Exception as error:
                hook.fail(error, "call")
                plan = None
            return original(loader) if plan is None else plan.open(original, loader)

        self.patch(module.DataLoader, "__iter__", __iter__)

    def plan(self, loader):
        script = self.scripts.get(loader)
        if script is None:
            script = self.scripts[loader] = _Script(loader)
        if script.abandoned:
            return None
        if script.plan is None:
            script.plan = Plan(self, loader, script)
        script.plan.pin(loader)
        return script.plan


class _Script:
    """A loader as the script made it."""

    def __init__(self, loader):
        self.num_workers = loader.num_workers
        self.prefetch_factor = loader.prefetch_factor
        self.persistent_workers = loader.persistent_workers
        self.pin_memory = loader.pin_memory
        self.abandoned = False
        self.plan = None

    def restore(self, loader):
        for name in _NAMES:
            object.__setattr__(loader, name, getattr(self, name))


class Plan:
    """What to do with one loader, decided when it is first opened."""

    def __init__(self, hook, loader, script):
        self.hook, self.script = hook, script
        self.kind = type(loader.dataset).__name__
        self.workers = self._workers(loader)
        self.prefetch = self._prefetch()
        self.persistent = self._persistent(loader)
        self.feeding = None

    def _told(self, name):
        return self.hook.by_name.get(name)

    def _workers(self, loader):
        knob, now = self._told("num_workers"), self.script.num_workers
        if knob is None:
            return now
        wanted = int(knob.value)
        reason = None if wanted == now else _why_not(loader, now, wanted)
        if wanted == now:
            knob.found("already set by the script: num_workers=%d (%s)" % (now, self.kind))
        elif reason:
            knob.refuse("%s: %s" % (self.kind, reason))
        else:
            knob.did("%s: %d -> %d" % (self.kind, now, wanted))
            return wanted
        return now

    def _prefetch(self):
        knob, now = self._told("prefetch_factor"), self.script.prefetch_factor
        if not self.workers:
            if knob is not None:
                knob.refuse("%s: there are no workers to prefetch" % self.kind)
            return None
        usual = now or 2
        if knob is None:
            return usual
        if int(knob.value) == usual and self.script.num_workers:
            knob.found("already set by the script: prefetch_factor=%d (%s)" % (usual, self.kind))
        else:
            knob.did("%s: %s -> %s" % (self.kind, now, knob.value))
        return int(knob.value)

    def _persistent(self, loader):
        knob, now = self._told("persistent_workers"), self.script.persistent_workers
        if knob is None or now:
            if knob is not None:
                knob.found("already set by the script (%s)" % self.kind)
            return now and self.workers > 0
        reason = _why_not_persistent(loader, self.workers)
        if reason:
            knob.refuse("%s: %s" % (self.kind, reason))
            return False
        knob.did("%s: its %d workers live through epochs" % (self.kind, self.workers))
        return True

    def pin(self, loader):
        """Asked at every opening: a script may start CUDA after it made its loaders; a knob never does."""
        knob = self._told("pin_memory")
        if knob is None:
            return
        wanted = knob.value == "on"
        if bool(self.script.pin_memory) == wanted:
            knob.found("already set by the script: pin_memory=%s (%s)" % (wanted, self.kind))
        elif wanted and not _cuda_started():
            knob.refuse("%s: CUDA was not in use when the loader was opened" % self.kind)
        elif bool(loader.pin_memory) != wanted:
            knob.did("%s: %s -> %s" % (self.kind, not wanted, wanted))
            loader.pin_memory = wanted

    # -- opening ---------------------------------------------------------------------------------------

    def open(self, original, loader):
        script = self.script
        if not script.num_workers and self.workers:
            return self._open_deferred(original, loader)
        if script.num_workers and not self.workers:
            return self._open_without(original, loader)
        if self.workers:
            again = self.persistent and not script.persistent_workers and loader._iterator is not None
            self._set(loader)
            if again:
                _draw(loader)  # the seed for workers that would have been started anew
        return original(loader)

    def _set(self, loader):
        """`persistent_workers` may not be set later, says torch: it means by its users."""
        loader.num_workers = self.workers
        loader.prefetch_factor = self.prefetch
        object.__setattr__(loader, "persistent_workers", self.persistent)

    def _open_without(self, original, loader):
        loader.num_workers, loader.prefetch_factor = 0, None
        object.__setattr__(loader, "persistent_workers", False)
        iterator = original(loader)
        first = next(iterator._sampler_iter, _NOTHING)  # with workers, the sampler is asked at once
        if first is not _NOTHING:
            iterator._sampler_iter = _chained(first, iterator._sampler_iter)
        return iterator

    def _open_deferred(self, original, loader):
        """Without workers, as far as the random stream can tell; they come with the first batch."""
        pinned = loader.pin_memory
        self.script.restore(loader)
        iterator = original(loader)
        loader.pin_memory = pinned
        self._set(loader)
        own, plan = iterator._next_data, self

        def first():
            del iterator._next_data
            feeding, batch = plan._first_batch(iterator, loader)
            if feeding is None:
                return own()
            iterator._next_data = feeding._next_data
            iterator._stoker_feeds = feeding
            return batch

        iterator._next_data = first
        return iterator

    def _first_batch(self, iterator, loader):
        state = _stream(loader)
        feeding = None
        try:
            feeding = self._workers_for(iterator, loader)
            timeout, feeding._timeout = feeding._timeout, FIRST_BATCH_S
            batch = feeding._next_data()
            feeding._timeout = timeout
            return feeding, batch
        except StopIteration:
            _restore_stream(loader, state)
            return None, None  # an empty epoch: the script's own iterator ends it
        except Exception as error:
            self._abandon(loader, feeding, error)
            _restore_stream(loader, state)
            return None, None

    def _workers_for(self, iterator, loader):
        """Their seed is drawn already, by the iterator the script holds."""
        kept, generator = self.feeding, loader.generator
        if kept is not None and self.persistent:
            kept._reset(loader)
            return kept
        torch = sys.modules["torch"]
        loader.generator = torch.Generator().manual_seed(iterator._base_seed)
        try:
            feeding = self.hook.module._MultiProcessingDataLoaderIter(loader)
        finally:
            loader.generator = generator
        self.feeding = feeding if self.persistent else None
        return feeding

    def _abandon(self, loader, feeding, error):
        """From now on as the script has it; if the data set itself fails, it will fail again by itself."""
        self.script.abandoned = True
        self.script.restore(loader)
        self.feeding = None
        for knob in self.hook.told:
            knob.applied = {
                text: n for text, n in knob.applied.items() if not text.startswith(self.kind + ":")
            }
            knob.refuse("%s: its workers failed: %s" % (self.kind, _last_line(error)))
        if feeding is not None:
            feeding._shutdown_workers()


_NOTHING = object()


def _last_line(error):
    """torch hands on a worker's whole traceback."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1][:300]


def _chained(first, rest):
    yield first
    yield from rest


def _why_not(loader, now, wanted):
    """None where as many workers may fetch as wanted, and every sample stays in its place."""
    if getattr(loader, "_dataset_kind", 0):
        if wanted <= 1 and now <= 1:
            return None
        return (
            "an IterableDataset is read whole by every worker unless it shards itself: with %d workers every "
            "sample would be trained %d times, or come in another order" % (wanted, wanted)
        )
    if not wanted:
        return "its timeout is for workers" if loader.timeout else None
    if not getattr(loader, "in_order", True):
        return "the script takes batches in any order"
    if now:
        return None
    sampler = _foreign_sampler(loader)
    if sampler:
        return "its sampler %s is not torch's: workers would ask it ahead of the training" % sampler
    if _draws_as_it_goes(loader):
        return (
            "its sampler draws again and again from a random stream of the script's: workers would ask ahead"
        )
    method = _start_method()
    return None if method == "fork" else "processes are started by %s, which imports the script anew" % method


def _why_not_persistent(loader, workers):
    if not workers:
        return "there are no workers to keep"
    if getattr(loader, "_dataset_kind", 0):
        return "workers of an IterableDataset keep their own copy of its state"
    if hasattr(loader.dataset, "set_epoch"):
        return "it is told the epoch (set_epoch), which living workers would not hear"
    return None


def _foreign_sampler(loader):
    for sampler in (loader.batch_sampler, loader.sampler):
        kind = type(sampler)
        if sampler is not None and kind.__module__.partition(".")[0] not in ("torch", "builtins"):
            return kind.__name__
    return None


def _draws_as_it_goes(loader):
    """Without a generator of the script's it has a stream of its own, or draws all at once."""
    sampler = getattr(loader.batch_sampler, "sampler", None) or loader.sampler
    if type(sampler).__name__ != "RandomSampler" or sampler.generator is None:
        return False
    return sampler.replacement or sampler.num_samples > len(sampler.data_source)


def _start_method():
    """Where the script chose none, torch's workers are forked on Linux up to Python 3.13."""
    import multiprocessing

    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _cuda_started():
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and cuda.is_initialized()


def _draw(loader):
    torch = sys.modules["torch"]
    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)


def _stream(loader):
    """The random streams a loader and its sampler draw from."""
    torch = sys.modules["torch"]
    samplers = (loader.sampler, getattr(loader.batch_sampler, "sampler", None))
    generators = [loader.generator, *(getattr(sampler, "generator", None) for sampler in samplers)]
    states = [(one, one.get_state()) for one in generators if isinstance(one, torch.Generator)]
    return torch.get_rng_state(), states


def _restore_stream(loader, state):
    torch = sys.modules["torch"]
    usual, others = state
    torch.set_rng_state(usual)
    for generator, seen in others:
        generator.set_state(seen)
