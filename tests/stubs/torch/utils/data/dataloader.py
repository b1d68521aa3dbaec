from ._utils import fetch, worker

__all__ = ["DataLoader", "worker"]


class DataLoader:
    num_workers, prefetch_factor, persistent_workers, pin_memory, drop_last = 0, None, False, False, False

    def __init__(self, dataset, batch_size):
        self.dataset, self.batch_size = dataset, batch_size
        self.sampler = range(len(dataset))

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        return _BaseDataLoaderIter(self)


class _BaseDataLoaderIter:
    def __init__(self, loader):
        size = loader.batch_size
        starts = range(0, len(loader.dataset), size)
        self._indices = iter([list(loader.sampler)[start : start + size] for start in starts])
        self._fetcher = fetch._MapDatasetFetcher(loader.dataset, list)
        self._num_yielded = 0

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._fetcher.fetch(next(self._indices))
        self._num_yielded += 1
        return batch
