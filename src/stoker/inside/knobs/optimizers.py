"""`fused`: optimizers made with torch's fused step; and what every optimizer was made with."""

import functools
import inspect
import sys

from ..hooks.base import Hook
from .base import Account

_KINDS = ("Adam", "AdamW", "SGD", "Adagrad")


class Fused(Account):
    knob = "fused"
    unused = "no optimizer was made that could be fused"


class OptimizerCalls(Hook):
    name = "knob_optimizers"
    modules = ("torch",)

    def __init__(self, agent, values, facts):
        super().__init__(agent)
        self.facts = facts
        self.fused = Fused(values["fused"]) if "fused" in values else None
        self.told = [] if self.fused is None else [self.fused]
        self.making = False

    def forked(self):
        if self.fused is not None:
            self.fused.clear()

    def fail(self, error, when):
        super().fail(error, when)
        if self.fused is not None:
            self.fused.error = self.error

    def install(self, module):
        optim = module.optim
        self.patch(optim.Optimizer, "__init__", self._noting(optim.Optimizer.__init__))
        if self.fused is None:
            return
        for name in _KINDS:
            kind = getattr(optim, name, None)
            if kind is not None and "fused" in inspect.signature(kind.__init__).parameters:
                self.patch(kind, "__init__", self._fusing(kind, kind.__init__))

    def _noting(self, original):
        facts = self.facts

        @functools.wraps(original)
        def __init__(optimizer, *args, **kwargs):
            original(optimizer, *args, **kwargs)
            facts.of_optimizer(optimizer)

        return __init__

    def _fusing(self, kind, original):
        hook, signature = self, inspect.signature(original)

        @functools.wraps(original)
        def __init__(*args, **kwargs):
            if hook.making or hook.error is not None:
                return original(*args, **kwargs)
            hook.making = True
            try:
                return hook.make(kind, original, signature, args, kwargs)
            finally:
                hook.making = False

        return __init__

    def make(self, kind, original, signature, args, kwargs):
        given, fuse = None, False
        try:
            if self.tripwire is not None:
                self.tripwire()
            given = signature.bind(*args, **kwargs).arguments
            fuse = self._wants(kind, given)
        except TypeError:
            given = None  # wrong arguments: the script shall hear of it from torch
        except Exception as error:
            self.fail(error, "call")
        if not fuse or given is None:
            original(*args, **kwargs)
            return
        given["params"] = _as_lists(given["params"])
        try:
            original(**{**given, "fused": self.fused.value == "on"})
        except Exception as error:  # parameters on a device, or of a type, that torch has no fused step for
            self.fused.refuse("%s: %s" % (kind.__name__, str(error)[:300]))
            original(**given)
            return
        self.fused.did("%s: fused %s" % (kind.__name__, self.fused.value))

    def _wants(self, kind, given):
        fused, name, present = self.fused, kind.__name__, given.get("fused")
        wanted = fused.value == "on"
        if present is not None and bool(present) == wanted:
            fused.found("already set by the script: %s(fused=%s)" % (name, present))
        elif present is None and not wanted:
            fused.found("%s is not fused unless asked" % name)
        elif wanted and (given.get("foreach") or given.get("differentiable")):
            fused.refuse("%s: the script asks for foreach or differentiable" % name)
        elif type(given["self"]).step is not kind.step:
            fused.refuse("%s has a step of its own" % type(given["self"]).__name__)
        else:
            return True
        return False


def _as_lists(params):
    """As torch itself makes them, so that they last for a second try."""
    tensor = sys.modules["torch"].Tensor
    if isinstance(params, tensor):
        return params
    groups = list(params)
    for group in groups:
        if isinstance(group, dict) and not isinstance(group.get("params"), tensor):
            group["params"] = list(group["params"])
    return groups
