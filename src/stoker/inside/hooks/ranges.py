"""Names the user already gave to parts of the loop: torch.profiler.record_function and NVTX ranges."""

import functools
import re

from ..originals import get_ident as _get_ident
from ..originals import perf_counter
from .base import Hook

_EVAL = re.compile(r"(^|[^a-z])(eval|evaluate|evaluation|valid|validate|validation|val|test)([^a-z]|$)", re.I)
# torch names parts of itself the same way; those are not the user's.
_OWN_OF_TORCH = re.compile(r"^(enumerate\(DataLoader\)|Optimizer\.|DistributedDataParallel\.|## )")
_NAMES_MAX = 200


class _RangeHook(Hook):
    def __init__(self, agent):
        super().__init__(agent)
        self.kinds = {}

    def kind(self, name):
        """None for a name of torch's own; else whether it names an evaluation."""
        kind = self.kinds.get(name, self)
        if kind is self:
            kind = None if _OWN_OF_TORCH.match(name) else bool(_EVAL.search(name))
            if len(self.kinds) < _NAMES_MAX:
                self.kinds[name] = kind
        return kind

    def begin(self, args):
        name = str(args[0])[:200]
        evaluation = self.kind(name)
        if evaluation is None:
            return None
        if evaluation:
            self.recorder.named_eval_begins()
        return name, evaluation, perf_counter()

    def end(self, token, args=None, result=None):
        if token is None:
            return
        name, evaluation, start = token
        if evaluation:
            self.recorder.named_eval_ends()
        totals = self.recorder.range_totals
        if name in totals or len(totals) < _NAMES_MAX:
            count, seconds = totals.get(name, (0, 0.0))
            totals[name] = (count + 1, seconds + perf_counter() - start)

    def quietly(self, call, *args):
        if _get_ident() != self.recorder.owner and not self.recorder.adopt():
            return None
        try:
            return call(*args)
        except Exception as error:
            self.fail(error, "call")
            return None


class RecordFunctionHook(_RangeHook):
    """torch opens ranges of its own in every optimizer step: only those of the user become one of ours."""

    name = "record_function"
    modules = ("torch",)

    def install(self, module):
        kind = module.autograd.profiler.record_function
        ours = self._noticed(kind)
        for make in (_in_place, _in_place_of_213):
            replacement = make(kind, self.kinds, ours)
            if _same_effect(kind, kind.__init__, replacement):
                break
        else:
            replacement = _around(kind, self.kinds, ours)
        self.patch(kind, "__init__", functools.wraps(kind.__init__)(replacement))

    def _noticed(self, kind):
        hook = self

        class record_function(kind):
            def __enter__(self):
                token = hook.quietly(hook.begin, (self.name,))
                if token is not None:
                    self._stoker_token = token
                return super().__enter__()

            def __exit__(self, *exception):
                result = super().__exit__(*exception)
                token = self.__dict__.pop("_stoker_token", None)
                if token is not None:
                    hook.quietly(hook.end, token)
                return result

        record_function.__module__, record_function.__qualname__ = kind.__module__, kind.__qualname__
        return record_function


def _in_place(kind, known, ours):
    """What torch's own does, written out, for it runs four times in a tick of two optimizers."""

    def __init__(self, name, args=None):
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self.record = None
        if known.get(name, True) is not None and type(self) is kind:
            self.__class__ = ours

    return __init__


def _in_place_of_213(kind, known, ours):
    """torch 2.13 has one field more."""

    def __init__(self, name, args=None):
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self.record = None
        self._cupti_monitor_external_id = None
        if known.get(name, True) is not None and type(self) is kind:
            self.__class__ = ours

    return __init__


def _around(kind, known, ours):
    init = kind.__init__

    def __init__(self, name, *args, **kwargs):
        init(self, name, *args, **kwargs)
        if known.get(name, True) is not None and type(self) is kind:
            self.__class__ = ours

    return __init__


_NAMES_OF_INIT = {"name", "args", "run_callbacks_on_exit", "record", "torch", "jit", "annotate", "Optional"}


def _same_effect(kind, original, replacement):
    """It does nothing but set fields, and both set the same ones to the same values."""
    code = getattr(original, "__code__", None)
    if code is None or code.co_varnames[: code.co_argcount] != ("self", "name", "args"):
        return False
    if not set(code.co_names) <= _NAMES_OF_INIT | {"_cupti_monitor_external_id"}:
        return False
    made = [kind.__new__(kind) for _ in range(2)]
    for init, one in zip((original, replacement), made):
        init(one, "name", "args")
    fields = [dict(vars(one)) for one in made]
    return fields[0] == fields[1]


class NvtxHook(_RangeHook):
    name = "nvtx"
    modules = ("torch.cuda.nvtx",)

    def install(self, module):
        push, pop, hook, open_ranges = module.range_push, module.range_pop, self, []

        def range_push(msg):
            open_ranges.append(hook.quietly(hook.begin, (msg,)))
            return push(msg)

        def range_pop():
            if open_ranges:
                hook.quietly(hook.end, open_ranges.pop())
            return pop()

        self.patch(module, "range_push", range_push)
        self.patch(module, "range_pop", range_pop)
