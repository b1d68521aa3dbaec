"""Tell Stoker that the script took up an earlier training: an optimizer's state came from a file.

Pretrained weights alone are no resumption; a state of the optimizer is.
"""

import functools
import json
import os

from ..imports import after_import

_loaded = []
_KEPT = 20


def install():
    after_import("torch.serialization", _quietly(_watch_load))
    after_import("torch.optim.optimizer", _quietly(_watch_optimizer))


def _quietly(watch):
    """A torch that is made otherwise is not watched; it is imported all the same."""

    def call(module):
        try:
            watch(module)
        except Exception:
            pass

    return call


def _watch_load(module):
    load = getattr(module, "load", None)
    if load is None:  # another torch: it cannot be told, and is not ours to stop
        return

    @functools.wraps(load)
    def watched(f, *args, **kwargs):
        _remember(f)
        return load(f, *args, **kwargs)

    module.load = watched


def _remember(source):
    path = source if isinstance(source, (str, bytes, os.PathLike)) else getattr(source, "name", None)
    if isinstance(path, (str, bytes, os.PathLike)):
        _loaded.append(os.path.abspath(os.fsdecode(path)))
        del _loaded[:-_KEPT]


def _watch_optimizer(module):
    load_state_dict = getattr(getattr(module, "Optimizer", None), "load_state_dict", None)
    if load_state_dict is None:
        return

    @functools.wraps(load_state_dict)
    def watched(self, state_dict, *args, **kwargs):
        result = load_state_dict(self, state_dict, *args, **kwargs)
        if _loaded:
            _tell()
        return result

    module.Optimizer.load_state_dict = watched


def _tell():
    try:
        path = os.path.join(os.environ["STOKER_FOLDER"], "resumed.%d.json" % os.getpid())
        with open(path, "w", encoding="utf-8") as stream:
            json.dump({"loaded": _loaded}, stream)
    except Exception:  # a note; the training goes on
        pass
