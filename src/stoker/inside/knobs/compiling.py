"""`compile`: every model that trains, in place; and whether torch has really compiled something of it."""

import importlib
import sys
import weakref

from .models import ModelKnob

_COMPILED_MAX = 16
_USUAL = "inductor"
_COMPILE_MODES = ("reduce-overhead", "max-autotune")


class Compile(ModelKnob):
    """`Module.compile` keeps the module, its parameters and the keys of its state_dict. What torch cannot
    compile runs as it is, without a word: torch's own counters are asked for each row."""

    knob = "compile"

    def __init__(self, agent, value):
        super().__init__(agent, value)
        self.seen, self.compiled = weakref.WeakSet(), weakref.WeakSet()
        self.called_again = False
        self.before = None

    def change(self, module, args, kwargs, context):
        torch = sys.modules["torch"]
        if module in self.compiled:
            self.called_again = True  # so its first call, which compiles, has come back
        if module in self.seen or not (module.training and torch.is_grad_enabled()):
            return args, kwargs, context
        self.seen.add(module)
        name = type(module).__name__
        if not hasattr(module, "compile") or isinstance(module, torch.jit.ScriptModule):
            self.refuse("%s cannot be compiled in place" % name)
        elif self.by_script(module):
            usual = self.value == _USUAL  # by what the script compiles it cannot be told
            self.note(self.already if usual else self.refused, "already compiled by the script: %s" % name)
        elif len(self.seen) > _COMPILED_MAX:
            self.refuse("more than %d models" % _COMPILED_MAX)
        else:
            self._compile(torch, module, name)
        return args, kwargs, context

    def by_script(self, module):
        return type(module).__name__ if any(map(_is_compiled, module.modules())) else ""

    def _compile(self, torch, module, name):
        importlib.import_module("torch._dynamo").config.suppress_errors = True
        if self.before is None:
            self.before = _counts()
        how = {"mode" if self.value in _COMPILE_MODES else "backend": self.value}
        module.compile(**how)
        inlined = _inlined(module)
        if inlined is not None:
            module._compiled_call_impl = torch.compile(inlined, **how)
        self.compiled.add(module)
        self.did("%s with %s" % (name, self.value))

    def undone(self):
        if not self.applied or not self.called_again:
            return ""
        graphs, tries, _ = self._since()
        if graphs > 0:
            return ""
        return (
            "compile failed, ran eager: torch has compiled nothing of it (tries: %d; its log may say why)"
            % tries
        )

    def elsewhere_not(self):
        reasons = list(self.refused)
        graphs, tries, done = self._since() if self.before is not None else (0, 0, 0)
        if graphs > 0 and tries > done:
            reasons.append("%d of %d pieces could not be compiled and ran eager" % (tries - done, tries))
        return "; ".join(reasons)

    def _since(self):
        """Graphs compiled, pieces of code tried, and those that came to a good end; the script's own, too."""
        return tuple(now - then for now, then in zip(_counts(), self.before))


def _counts():
    counters = sys.modules["torch._dynamo.utils"].counters
    frames = counters["frames"]
    return counters["stats"]["unique_graphs"], frames["total"], frames["ok"]


def _inlined(module):
    """Its call as user's code. Of a model whose `forward` is torch's own (a Sequential) `Module.compile`
    compiles nothing: such code is passed over. `torch.compile(model)` has the same cure."""
    try:
        rules = importlib.import_module("torch._dynamo.trace_rules")
        if rules.check(module.forward):
            return importlib.import_module("torch._dynamo.external_utils").wrap_inline(module._call_impl)
    except Exception:  # a torch that has no such names: `undone` tells what came of it
        pass
    return None


def _is_compiled(module):
    return getattr(module, "_compiled_call_impl", None) is not None or hasattr(module, "_orig_mod")
