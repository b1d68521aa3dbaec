"""`env`: steps and resets of environments, whoever wrote them.

Environment classes override `step`, so the base class is asked to wrap it in each subclass as it is made.
Wrappers call each other; only the outermost call of the training thread is timed and counted.
"""

import functools
import os
import threading

from ..wire import ENV
from .base import Hook

_get_ident = threading.get_ident
_METHODS = ("step", "reset")


class _EnvHook(Hook):
    """The wrapping that Gymnasium's, Gym's, SB3's and the user's own environments share."""

    def wrap_method(self, method, counts):
        recorder, hook = self.recorder, self
        timed = self.wrap(method, follows_dynamo=False)

        @functools.wraps(method)
        def call(self, *args, **kwargs):
            if recorder.phase == ENV and _get_ident() == recorder.owner:
                return method(self, *args, **kwargs)
            result = timed(self, *args, **kwargs)
            if counts and hook.error is None and _get_ident() == recorder.owner:
                recorder.env_stepped(_env_count(self))
            return result

        call._stoker_original = method
        return call

    def begin(self, args):
        return self.recorder.enter(ENV)

    def wrap_class(self, kind):
        for name in _METHODS:
            method = vars(kind).get(name)
            if callable(method) and not hasattr(method, "_stoker_original"):
                self.patch(kind, name, self.wrap_method(method, counts=name == "step"))

    def follow_subclasses(self, base):
        """Every class made from `base` from now on, and those that exist."""
        original = base.__init_subclass__

        def __init_subclass__(cls, **kwargs):
            original.__func__(cls, **kwargs) if hasattr(original, "__func__") else original(**kwargs)
            if self.error is None:
                try:
                    self.wrap_class(cls)
                except Exception as error:
                    self.fail(error, "install")

        self.patch(base, "__init_subclass__", classmethod(__init_subclass__))
        for kind in [base, *_descendants(base)]:
            self.wrap_class(kind)


class GymnasiumHook(_EnvHook):
    name = "gymnasium"
    modules = ("gymnasium.core", "gymnasium.vector.vector_env")

    def install(self, module):
        base = module.Env if module.__name__ == "gymnasium.core" else module.VectorEnv
        self.follow_subclasses(base)


class GymHook(_EnvHook):
    name = "gym"
    modules = ("gym.core",)

    def install(self, module):
        self.follow_subclasses(module.Env)


class Sb3Hook(_EnvHook):
    """A VecEnv is stepped through its base class; what it wraps is then inside."""

    name = "sb3"
    modules = ("stable_baselines3.common.vec_env.base_vec_env",)

    def install(self, module):
        self.patch(module.VecEnv, "step", self.wrap_method(module.VecEnv.step, counts=True))
        self._reset_of(module.VecEnv)

    def _reset_of(self, base):
        original = base.__init_subclass__
        hook = self

        def __init_subclass__(cls, **kwargs):
            original(**kwargs)
            reset = vars(cls).get("reset")
            if hook.error is None and callable(reset):
                hook.patch(cls, "reset", hook.wrap_method(reset, counts=False))

        self.patch(base, "__init_subclass__", classmethod(__init_subclass__))


class NamedHook(_EnvHook):
    """What the user named with --env or --eval: `module:Class.method` or `module:function`."""

    name = "named"

    def __init__(self, agent):
        super().__init__(agent)
        self.wanted = _parse(os.environ.get("STOKER_NAMED", ""))
        self.modules = tuple(sorted({module for _, module, _ in self.wanted} - {"__main__"}))
        if any(module == "__main__" for _, module, _ in self.wanted):
            self._watch_script()

    def install(self, module):
        for kind, name, path in self.wanted:
            if name == module.__name__:
                owner = functools.reduce(getattr, path[:-1], module)
                self._name_it(kind, owner, path[-1])

    def _name_it(self, kind, owner, attribute):
        function = getattr(owner, attribute)
        if kind == "eval":
            replacement = NamedEval(self).wrap(function)
        else:
            replacement = self.wrap_method(function, counts=attribute != "reset")
        self.patch(owner, attribute, replacement)

    def _watch_script(self):
        """Classes of the script itself are seen as they are made; only asked for with `__main__:`."""
        import builtins

        build = builtins.__build_class__

        def __build_class__(function, name, *bases, **keywords):
            kind = build(function, name, *bases, **keywords)
            if getattr(kind, "__module__", None) == "__main__" and self.error is None:
                self._name_class(kind)
            return kind

        self.patch(builtins, "__build_class__", __build_class__)

    def _name_class(self, kind):
        for role, module, path in self.wanted:
            if module == "__main__" and ".".join(path[:-1]) == kind.__qualname__:
                try:
                    self._name_it(role, kind, path[-1])
                except Exception as error:
                    self.fail(error, "install")


class NamedEval(Hook):
    name = "named_eval"

    def __init__(self, parent):
        super().__init__(parent.agent)

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
            wanted.append((kind, module, path.split(".")))
    return wanted


def _env_count(env):
    count = getattr(env, "num_envs", 1)
    return count if isinstance(count, int) and count > 0 else 1


def _descendants(kind):
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
