"""`block_shuffle`: blocks of neighbouring samples in random order, for storage that reads neighbours fast.

Another order of samples: another training. A block is seen as a whole, so where neighbours are alike
(sorted by class) batches become alike too.
"""

import functools
import sys

from .base import RuntimeKnob


class BlockShuffle(RuntimeKnob):
    knob = "block_shuffle"
    modules = ("torch.utils.data.sampler",)
    unused = "no random order was drawn by torch's RandomSampler"

    def install(self, module):
        hook, size = self, int(self.value)
        original = module.RandomSampler.__iter__

        @functools.wraps(original)
        def __iter__(sampler):
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                order = hook.order(sampler, size)
            except Exception as error:
                hook.fail(error, "call")
                order = None
            return original(sampler) if order is None else order

        self.patch(module.RandomSampler, "__iter__", __iter__)

    def order(self, sampler, size):
        count = len(sampler.data_source)
        if sampler.replacement or sampler.num_samples != count:
            self.refuse("a sampler draws with replacement, or only a part")
            return None
        self.did("%d samples in blocks of %d" % (count, size))
        return _blocks(sampler, count, size)


def _blocks(sampler, count, size):
    """Lazily, and with one draw from the random stream, as torch does it."""
    torch = sys.modules["torch"]
    generator = sampler.generator
    if generator is None:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        generator = torch.Generator()
        generator.manual_seed(seed)
    blocks = torch.randperm(-(-count // size), generator=generator).tolist()
    for block in blocks:
        yield from range(block * size, min(count, (block + 1) * size))
