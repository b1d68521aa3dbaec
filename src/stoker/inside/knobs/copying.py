"""`non_blocking`: a batch that a loader put into pinned memory is copied to the GPU without waiting for it.

Only such tensors: their memory is torch's own and stays until the copy is done. Any other tensor may be
written to by the script while the copy is still on its way. The patches sit on Tensor methods and come off
while torch.compile traces.
"""

import functools
import sys
import weakref

from .base import RuntimeKnob

_DEPTH_MAX = 4
_COUNTED = "copies of pinned batches"


class NonBlocking(RuntimeKnob):
    knob = "non_blocking"
    modules = ("torch.cuda", "torch.utils.data.dataloader")
    unused = "no pinned batch of a loader was copied to a GPU (pin_memory makes them pinned)"

    def __init__(self, agent, value):
        super().__init__(agent, value)
        self.pinned = {}
        self.ready = False

    def forked(self):
        super().forked()
        self.pinned.clear()

    def install(self, module):
        if module.__name__ == "torch.cuda":
            self._once_cuda_runs(module)
        else:
            self._note_batches(module._BaseDataLoaderIter)

    def _note_batches(self, base):
        original, hook = base.__next__, self

        @functools.wraps(original)
        def __next__(iterator):
            batch = original(iterator)
            if hook.ready and hook.error is None:
                try:
                    feeds = getattr(iterator, "_stoker_feeds", iterator)  # workers given to it by a knob
                    if feeds._pin_memory:
                        hook.remember(batch, 0)
                except Exception as error:
                    hook.fail(error, "call")
            return batch

        base.__next__ = __next__  # stays when the patches on tensors come off

    def remember(self, value, depth):
        if isinstance(value, sys.modules["torch"].Tensor):
            key = id(value)
            self.pinned[key] = weakref.ref(value, lambda _, key=key: self.pinned.pop(key, None))
        elif depth < _DEPTH_MAX:
            parts = value.values() if isinstance(value, dict) else value
            for part in parts if isinstance(value, (dict, list, tuple)) else ():
                self.remember(part, depth + 1)

    def _once_cuda_runs(self, cuda):
        if cuda.is_initialized():
            self.put_on_tensors()
            return
        original, hook = cuda._lazy_init, self

        @functools.wraps(original)
        def _lazy_init():
            result = original()
            if not hook.ready and hook.error is None:
                hook.ready = True
                try:
                    hook.put_on_tensors()
                except Exception as error:
                    hook.fail(error, "install")
            return result

        cuda._lazy_init = _lazy_init

    def put_on_tensors(self):
        self.ready = True
        tensor = sys.modules["torch"].Tensor
        for name in ("to", "cuda"):
            self.patch(tensor, name, self._waitless(name, getattr(tensor, name)))
        self.agent.on_tensors.append(self)

    def _waitless(self, name, original):
        hook = self

        @functools.wraps(original)
        def call(tensor, *args, **kwargs):
            known = hook.pinned.get(id(tensor)) if hook.pinned else None
            if known is not None and known() is tensor and hook.error is None:
                try:
                    if hook.tripwire is not None:
                        hook.tripwire()
                    kwargs = hook.without_waiting(name, args, kwargs)
                except Exception as error:
                    hook.fail(error, "call")
            return original(tensor, *args, **kwargs)

        return call

    def without_waiting(self, name, args, kwargs):
        """The flag is the third of `to(device, dtype, non_blocking)`, the second of `cuda(device, …)`, or
        named."""
        given = [argument for argument in args if isinstance(argument, bool)]
        if given or "non_blocking" in kwargs:
            asked = given[0] if given else kwargs["non_blocking"]
            self.found("already set by the script: non_blocking=%s" % asked)
            return kwargs
        if name == "to" and not _to_a_gpu(args, kwargs):
            return kwargs
        self.did(_COUNTED)
        return {**kwargs, "non_blocking": True}


def _to_a_gpu(args, kwargs):
    torch = sys.modules["torch"]
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return value.is_cuda
        if isinstance(value, torch.device):
            return value.type == "cuda"
        if isinstance(value, str):
            return value.startswith("cuda")
        if isinstance(value, int) and not isinstance(value, bool):
            return True
    return False
