"""Names the user already gave to parts of the loop: torch.profiler.record_function and NVTX ranges."""

import re
import threading
from time import perf_counter

from .base import Hook

_get_ident = threading.get_ident
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
    name = "record_function"
    modules = ("torch",)

    def install(self, module):
        kind = module.autograd.profiler.record_function
        enter, leave, hook, known = kind.__enter__, kind.__exit__, self, self.kinds

        def __enter__(self):
            if known.get(self.name, True) is not None:
                token = hook.quietly(hook.begin, (self.name,))
                if token is not None:
                    self._stoker_token = token
            return enter(self)

        def __exit__(self, *exception):
            result = leave(self, *exception)
            token = self.__dict__.pop("_stoker_token", None)
            if token is not None:
                hook.quietly(hook.end, token)
            return result

        self.patch(kind, "__enter__", __enter__)
        self.patch(kind, "__exit__", __exit__)


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
