"""`data`: the main process waiting for a batch, per DataLoader, and how full its queue was."""

from .base import Hook


class Loader:
    """One DataLoader as the main process sees it; sums are cumulative."""

    def __init__(self, number, loader):
        self.facts = {"id": number, **_facts(loader)}
        self.batch_size = loader.batch_size
        self.epochs = 0
        self.batches = 0
        self.wait_s = 0.0
        self.wait_max_s = 0.0
        self.open_s = 0.0
        self.depth_sum = 0
        self.depth_seen = 0
        self.empty = 0
        self._written = -1

    def row(self):
        if self.batches + self.epochs == self._written:
            return None
        self._written = self.batches + self.epochs
        return {
            **self.facts,
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
        self.patch(module.DataLoader, "__iter__", _OpenHook(self).wrap(module.DataLoader.__iter__))
        base = module._BaseDataLoaderIter
        self.patch(base, "__next__", self.wrap(base.__next__))

    def begin(self, args):
        loader = self.agent.loaders.get(getattr(args[0], "_stoker_loader", None))
        if loader is not None:
            _note_depth(loader, args[0])
        recorder = self.recorder
        return loader, recorder.data_begins(), recorder.since

    def end(self, token, args, result):
        if token is None:
            return
        loader, before, start = token
        recorder = self.recorder
        recorder.leave(before)
        if loader is None or result is None:
            return
        waited = recorder.since - start
        loader.batches += 1
        loader.wait_s += waited
        if waited > loader.wait_max_s:
            loader.wait_max_s = waited
        recorder.samples += loader.batch_size or _rows_of(result)


class _OpenHook(Hook):
    """`iter(loader)`: starts workers at each epoch unless they persist."""

    name = "loader_open"

    def __init__(self, parent):
        super().__init__(parent.agent)

    def begin(self, args):
        recorder = self.recorder
        return recorder.data_begins(), recorder.since

    def end(self, token, args, result):
        if token is None:
            return
        before, start = token
        self.recorder.leave(before)
        if result is None:
            return
        loaders, key = self.agent.loaders, id(args[0])
        if key not in loaders:
            loaders[key] = Loader(len(loaders), args[0])
        loaders[key].epochs += 1
        loaders[key].open_s += self.recorder.since - start
        result._stoker_loader = key


def _note_depth(loader, iterator):
    """Batches waiting to be taken. Zero means that the training is about to wait."""
    queue = getattr(iterator, "_data_queue", None)
    if queue is None:
        return
    ready = iterator._task_info.get(iterator._rcvd_idx, ())
    depth = queue.qsize() + (1 if len(ready) == 2 else 0)
    loader.depth_seen += 1
    loader.depth_sum += depth
    if depth == 0:
        loader.empty += 1


def _rows_of(batch):
    """Samples of a batch whose loader does not say: rows of the first thing in it that has rows."""
    for _ in range(8):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else 1
        if isinstance(batch, dict):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        else:
            return 1
    return 1


def _facts(loader):
    try:
        length = len(loader)
    except Exception:
        length = None  # an iterable data set without a length
    return {
        "num_workers": loader.num_workers,
        "batch_size": loader.batch_size,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": bool(loader.pin_memory),
        "length": length,
        "dataset": type(loader.dataset).__name__,
    }
