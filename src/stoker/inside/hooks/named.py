"""What the user named with --env or --eval: `module:Class.method` or `module:function`."""

import builtins
import functools
import inspect
import os
import sys

from .base import Hook
from .envs import EnvHook

_SCRIPT = ("__main__", "__mp_main__")  # the script itself; the second in a child started by spawn


class NamedHook(EnvHook):
    name = "named"

    def __init__(self, agent):
        super().__init__(agent)
        self.wanted = _parse(os.environ.get("STOKER_NAMED", ""))
        self.found = set()
        self.modules = tuple(sorted({entry[1] for entry in self.wanted} - {"__main__"}))
        if any(module == "__main__" for _, module, _ in self.wanted):
            self.install_in(builtins)

    def install(self, module):
        if module is builtins:
            self._watch_script()
            return
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
        else:
            replacement = self.wrap_step(function, counts=path[-1] != "reset")
        self.patch(owner, path[-1], binding(replacement) if binding else replacement)
        self.found.add(entry)

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


def _parse(text):
    wanted = []
    for entry in text.split(";"):
        kind, _, target = entry.partition("=")
        module, _, path = target.partition(":")
        if module and path:
            wanted.append((kind, module, tuple(path.split("."))))
    return wanted
