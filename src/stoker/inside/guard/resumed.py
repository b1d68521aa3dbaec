"""Tell Stoker that the script took up an earlier training: an optimizer's state came from a file, or a file
it loaded says how far a training had come.

Pretrained weights alone are no resumption; a state of the optimizer is. A count of steps beside them may be.
"""

import functools
import json
import os
from collections import OrderedDict
from itertools import islice

from ..imports import after_import

_loaded = []
_counted = []
_KEPT = 20
_DEPTH, _LOOKS = 4, 200
_PLAIN = (dict, OrderedDict, list, tuple)
_COUNTS = frozenset(
    "step steps global_step total_steps env_steps epoch epochs it iter iters iteration iterations update"
    " updates num_updates timestep timesteps num_timesteps".split()
)


def install():
    after_import("torch.serialization", _quietly(_watch_load))
    after_import("torch.optim.optimizer", _quietly(_watch_optimizer))


def _quietly(watch):
    """A torch that is made otherwise is not watched, and that is told; it is imported all the same."""

    def call(module):
        try:
            watch(module)
        except Exception as error:
            _write("unwatched", {"reason": repr(error)[:300]})

    return call


def _watch_load(module):
    load = module.load

    @functools.wraps(load)
    def watched(f, *args, **kwargs):
        result = load(f, *args, **kwargs)
        try:
            _remember(f, result)
        except Exception as error:  # a current folder that is gone, a name of bytes: the script's own affair
            _write("unwatched", {"reason": repr(error)[:300]})
        return result

    module.load = watched


def _remember(source, content):
    path = source if isinstance(source, (str, bytes, os.PathLike)) else getattr(source, "name", None)
    if isinstance(path, (str, bytes, os.PathLike)):
        path = os.path.abspath(os.fsdecode(path))
        _loaded.append((path, _holds_optimizer(content)))
        del _loaded[:-_KEPT]
        if _holds_count(content):
            _counted.append(path)
            _write("counted", {"loaded": _counted[-_KEPT:]})


def _holds_count(content):
    """Of steps made, beside something else."""
    if type(content) not in (dict, OrderedDict) or len(content) < 2:
        return False
    own = ((key, value) for key, value in islice(dict.items(content), _LOOKS) if type(key) is str)
    return any(type(value) is int and value > 0 and key.lower() in _COUNTS for key, value in own)


def _holds_optimizer(content):
    """A data set is loaded, too; it is not what a training was taken up from. Only plain containers are
    looked into, and not far: others may do anything when they are asked."""
    level = [content]
    for _ in range(_DEPTH):
        level, above = [], [one for one in level if type(one) in _PLAIN]
        for one in above[:_LOOKS]:
            if isinstance(one, dict) and "state" in one and "param_groups" in one:
                return True
            level += islice(dict.values(one) if isinstance(one, dict) else one, _LOOKS)
    return False


def _taken_up_from():
    """Files with the state of an optimizer; where none looks so, the last."""
    return [path for path, holds in _loaded if holds] or [_loaded[-1][0]]


def _watch_optimizer(module):
    load_state_dict = module.Optimizer.load_state_dict

    @functools.wraps(load_state_dict)
    def watched(self, state_dict, *args, **kwargs):
        result = load_state_dict(self, state_dict, *args, **kwargs)
        if _loaded:
            _write("resumed", {"loaded": _taken_up_from()})
        return result

    module.Optimizer.load_state_dict = watched


def _write(name, content):
    try:
        path = os.path.join(os.environ["STOKER_FOLDER"], "%s.%d.json" % (name, os.getpid()))
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
    except Exception:  # a full disk, a folder that is gone: nobody is left to tell, the training goes on
        pass
