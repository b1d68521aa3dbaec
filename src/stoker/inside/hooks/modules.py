"""The model's call: `forward` where gradients are recorded, `infer` where they are not.

`torch.nn.Module.__call__` runs for every layer, so the replacement costs one comparison there: it does what
torch's own two-line `_wrapped_call_impl` does, in its place, and looks closer only at the outermost call.
"""

import threading

from ..recorder import TRANSPARENT
from .base import Hook

_get_ident = threading.get_ident
_KNOWN_NAMES = ("_compiled_call_impl", "_call_impl")


class ModuleHook(Hook):
    name = "module"
    modules = ("torch",)

    def install(self, module):
        self.is_grad_enabled = module.is_grad_enabled
        base = module.nn.Module
        original = base.__call__
        inner = getattr(original, "__code__", None)
        if inner is not None and inner.co_names == _KNOWN_NAMES:
            replacement = self._in_place(original)
        else:
            replacement = self._around(original)
        # Traced in our place. No method's `self` is lost here: torch calls the module, not its `__call__`.
        replacement._torchdynamo_inline = original
        replacement.__name__, replacement.__qualname__ = original.__name__, original.__qualname__
        self.patch(base, "__call__", replacement)

    def begin(self, args):
        recorder = self.recorder
        if recorder.want_shape:
            recorder.want_shape = False
            recorder.batch_rows = _rows(args)
        return recorder.model_begins(self.is_grad_enabled(), args[0].training)

    def end(self, token, args, result):
        self.recorder.model_ends(token)

    def _in_place(self, original):
        recorder, outermost = self.recorder, self._outermost

        def __call__(self, *args, **kwargs):
            if TRANSPARENT[recorder.phase] or _get_ident() != recorder.owner and not recorder.adopt():
                if self._compiled_call_impl is not None:
                    return self._compiled_call_impl(*args, **kwargs)
                return self._call_impl(*args, **kwargs)
            return outermost(original, self, args, kwargs)

        return __call__

    def _around(self, original):
        recorder, outermost = self.recorder, self._outermost

        def __call__(self, *args, **kwargs):
            if TRANSPARENT[recorder.phase] or _get_ident() != recorder.owner and not recorder.adopt():
                return original(self, *args, **kwargs)
            return outermost(original, self, args, kwargs)

        return __call__

    def _outermost(self, original, module, args, kwargs):
        try:
            token = self.begin((module, *args))
        except Exception as error:
            self.fail(error, "call")
            return original(module, *args, **kwargs)
        try:
            return original(module, *args, **kwargs)
        finally:
            try:
                self.end(token, args, None)
            except Exception as error:
                self.fail(error, "call")


def _rows(args):
    """Rows of the first tensor given to the model: the batch as the model sees it."""
    for value in args[1:]:
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
    return None
