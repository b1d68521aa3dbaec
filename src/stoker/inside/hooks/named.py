"""What the user named with --env, --eval or --step: `module:Class.method` or `module:function`."""

import builtins
import functools
import inspect
import os
import sys

from ..dynamo import tracing_check
from .base import Hook
from .envs import EnvHook

_ROWS_MAX = 64
_ARRAYS = (("torch", "Tensor"), ("numpy", "ndarray"))
_SCRIPT = ("__main__", "__mp_main__")  # the script itself; the second in a child started by spawn


class NamedHook(EnvHook):
    name = "named"

    def __init__(self, agent):
        super().__init__(agent)
        self.wanted = _parse(os.environ.get("STOKER_NAMED", ""))
        self.found = set()
        self.rows = {}
        self.steps = any(kind == "step" for kind, *_ in self.wanted)
        modules = {entry[1] for entry in self.wanted} | ({"torch"} if self.steps else set())
        self.modules = tuple(sorted(modules - {"__main__"}))
        if any(module == "__main__" for _, module, _ in self.wanted):
            self.install_in(builtins)

    def install(self, module):
        if module is builtins:
            self._watch_script()
            return
        if self.steps and module.__name__ == "torch":  # nothing else may ever happen in such a training
            self.agent.begin()
        for entry in self.wanted:
            if entry[1] == module.__name__:
                self._name_it(entry, module)

    def look_in_script(self):
        """Called at the first thing that happens, and now and then: its functions are defined by then."""
        if self.error is not None:
            return
        try:
            for entry in self.wanted:
                if entry[1] == "__main__" and entry not in self.found:
                    self._find_in_script(entry)
        except Exception as error:
            self.fail(error, "install")

    def _find_in_script(self, entry):
        for name in _SCRIPT:
            module = sys.modules.get(name)
            if module is not None and hasattr(module, entry[2][0]):
                self._name_it(entry, module)
                return

    def missing(self):
        """Names that nothing answered to."""
        return ["%s:%s" % (module, ".".join(path)) for kind, module, path in set(self.wanted) - self.found]

    def _name_it(self, entry, module):
        owner = functools.reduce(getattr, entry[2][:-1], module)
        self._replace(entry, owner)

    def _replace(self, entry, owner):
        kind, _, path = entry
        raw = inspect.getattr_static(owner, path[-1])
        binding = type(raw) if isinstance(raw, (staticmethod, classmethod)) else None
        function = raw.__func__ if binding else getattr(owner, path[-1])
        if kind == "eval":
            replacement = self.part(NamedEval).wrap(function)
        elif kind == "step":
            step = self.part(NamedStep)
            step.called = ".".join(path) + "()"
            replacement = step.wrap(function)
        else:
            counts = path[-1] != "reset"
            replacement = self.wrap_step(self._learning(function) if counts else function, counts)
        self.patch(owner, path[-1], binding(replacement) if binding else replacement)
        self.found.add(entry)

    def _learning(self, function):
        """How many environments answer a step, where they do not say: as many as there are rewards."""
        rows, tracing = self.rows, tracing_check()

        @functools.wraps(function)
        def step(*args, **kwargs):
            result = function(*args, **kwargs)
            if not tracing() and args and id(args[0]) not in rows and self.error is None:
                try:
                    if self.tripwire is not None:
                        self.tripwire()
                    if len(rows) >= _ROWS_MAX:  # a function is given another first argument each time
                        rows.clear()
                    rows[id(args[0])] = _rows(result)
                except Exception as error:
                    self.fail(error, "call")
            return result

        return step

    def count_of(self, env):
        said = super().count_of(env)
        return said if said > 1 else self.rows.get(id(env), 1)

    def _watch_script(self):
        """Classes of the script itself are seen as they are made; only asked for with `__main__:`."""
        build = builtins.__build_class__

        def __build_class__(function, name, *bases, **keywords):
            kind = build(function, name, *bases, **keywords)
            if self.error is None and getattr(kind, "__module__", None) in _SCRIPT:
                self._name_class(kind)
            return kind

        self.patch(builtins, "__build_class__", __build_class__)

    def _name_class(self, kind):
        for entry in self.wanted:
            if entry[1] == "__main__" and ".".join(entry[2][:-1]) == kind.__qualname__:
                try:
                    self._replace(entry, kind)
                except Exception as error:
                    self.fail(error, "install")


class NamedEval(Hook):
    name = "named_eval"

    def begin(self, args):
        self.recorder.named_eval_begins()
        return True

    def end(self, token, args, result):
        if token:
            self.recorder.named_eval_ends()


class NamedStep(Hook):
    """A step of a training without a torch optimizer: its end is the tick, as that of an optimizer's step."""

    name = "named_step"
    called = ""

    def __init__(self, agent):
        super().__init__(agent)
        self.within = 0

    def forked(self):
        self.within = 0

    def begin(self, args):
        self.within += 1
        return True

    def end(self, token, args, result):
        if token:
            self.within = max(0, self.within - 1)
            if not self.within:  # one that calls itself is one step
                self.recorder.ended_closely(self._stepped, self)

    def _stepped(self, step):
        self.agent.hook("optimizer").stepped(step, self.called)


def _rows(result):
    """Of `observation, reward, done, …`: the length of rewards and dones, where all have the same; of tensors
    and arrays only, which are not asked but looked at."""
    kinds = [kind for module, name in _ARRAYS if (kind := getattr(sys.modules.get(module), name, None))]
    if not isinstance(result, tuple) or len(result) < 2:
        return 1
    shapes = [tuple(one.shape) for one in result[1:4] if type(one) in kinds]
    lengths = {shape[0] for shape in shapes if len(shape) == 1 or len(shape) == 2 and shape[1] == 1}
    return max(1, lengths.pop()) if len(lengths) == 1 else 1


def _parse(text):
    wanted = []
    for entry in text.split(";"):
        kind, _, target = entry.partition("=")
        module, _, path = target.partition(":")
        if module and path:
            wanted.append((kind, module, tuple(path.split("."))))
    return wanted
