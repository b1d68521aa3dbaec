class _MapDatasetFetcher:
    auto_collation = True

    def __init__(self, dataset, collate_fn):
        self.dataset, self.collate_fn = dataset, collate_fn

    def fetch(self, possibly_batched_index):
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])


class _IterableDatasetFetcher(_MapDatasetFetcher):
    def fetch(self, possibly_batched_index):
        return self.collate_fn([next(self.dataset) for _ in possibly_batched_index])
