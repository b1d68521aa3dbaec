"""`env`: steps and resets of environments, whoever wrote them.

Environment classes override `step`, so the base class is asked to wrap it in each subclass as it is made.
Wrappers call each other; only the outermost call of the training thread is timed and counted.
"""

import functools
import inspect
import types
import weakref

from ..dynamo import tracing_check
from ..interruption import pass_on
from ..wire import ENV
from .base import Hook, original_of

_METHODS = ("step", "reset")
_WRAPPERS_MAX = 20
_ENVS_KNOWN = 64
_WRAPPED_KNOWN = 1024
_STARS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class EnvHook(Hook):
    """The wrapping that Gymnasium's, Gym's, SB3's and the user's own environments share."""

    def wrap_step(self, function, counts):
        plain, ends = _plain_step(function), self._counting() if counts else None
        if plain is not None:
            return plain(function, self.timed(function, ENV, ends=ends), self.recorder)
        return self.wrap_phase(function, ENV, ends=ends)

    def __init__(self, agent):
        super().__init__(agent)
        self.wrapped = []

    def _counting(self):
        """Environments behind one step are looked up once, for wrappers lie one in another."""
        recorder, counts = self.recorder, {}

        def ends(env):
            """Of one that is known the log has the id; one that was forgotten meanwhile counted one."""
            count = counts.get(env, 1) if type(env) is int else counts.get(id(env))
            if count is None:
                if len(counts) >= _ENVS_KNOWN:  # made anew for every episode
                    for key in [key for key, known in counts.items() if known == 1] or list(counts):
                        del counts[key]
                count = counts[id(env)] = self.count_of(env)
            recorder.env_stepped(count)

        ends.counts = counts
        return ends

    def count_of(self, env):
        return _env_count(env)

    def wrap_class(self, kind):
        for name in _METHODS:
            method = vars(kind).get(name)
            if _is_plain(method) and original_of(method) is None:
                self._patch_class(kind, name, self.wrap_step(method, counts=name == "step"))

    def _patch_class(self, kind, name, replacement):
        """As `patch`, and keeps nothing alive: a script may make classes by the thousand."""
        if len(self.wrapped) >= _WRAPPED_KNOWN and not len(self.wrapped) & (len(self.wrapped) - 1):
            self.wrapped = [known for known in self.wrapped if known[0]() is not None]
        self.wrapped.append((weakref.ref(kind), name, weakref.ref(replacement)))
        setattr(kind, name, replacement)

    def class_patches(self):
        """Those that are in place, as in `patches`."""
        for known, name, wrapper in self.wrapped:
            kind, replacement = known(), wrapper()
            if kind is not None and replacement is not None and vars(kind).get(name) is replacement:
                yield kind, name, original_of(replacement), replacement

    def take_off(self):
        super().take_off()
        for kind, name, original, _ in self.class_patches():
            setattr(kind, name, original)

    def follow_subclasses(self, base, wrap):
        """Every class made from `base` from now on."""
        own = vars(base).get("__init_subclass__")

        def __init_subclass__(cls, **kwargs):
            if own is not None:
                own.__get__(None, cls)(**kwargs)
            else:
                super(base, cls).__init_subclass__(**kwargs)
            if self.error is None:
                try:
                    wrap(cls)
                except Exception as error:
                    self.fail(error, "install")

        self.patch(base, "__init_subclass__", classmethod(__init_subclass__))

    def follow(self, base):
        self.follow_subclasses(base, self.wrap_class)
        for kind in [base, *_descendants(base)]:
            self.wrap_class(kind)


class GymnasiumHook(EnvHook):
    name = "gymnasium"
    modules = ("gymnasium.core", "gymnasium.vector.vector_env")

    def install(self, module):
        self.follow(module.Env if module.__name__ == "gymnasium.core" else module.VectorEnv)


class GymHook(EnvHook):
    name = "gym"
    modules = ("gym.core",)

    def install(self, module):
        self.follow(module.Env)


class PettingZooHook(EnvHook):
    """Of several agents; a step is one of the environment, however many of them act in it."""

    name = "pettingzoo"
    modules = ("pettingzoo.utils.env",)

    def install(self, module):
        self.follow(module.AECEnv)
        self.follow(module.ParallelEnv)


class Sb3Hook(EnvHook):
    """A VecEnv is stepped through its base class; what it wraps is then inside."""

    name = "sb3"
    modules = ("stable_baselines3.common.vec_env.base_vec_env",)

    def install(self, module):
        self.patch(module.VecEnv, "step", self.wrap_step(module.VecEnv.step, counts=True))
        self.follow_subclasses(module.VecEnv, self._wrap_reset)

    def _wrap_reset(self, kind):
        if _is_plain(vars(kind).get("reset")):
            self._patch_class(kind, "reset", self.wrap_step(vars(kind)["reset"], counts=False))


class TorchrlHook(EnvHook):
    """Environments of torchrl override `_step`; `step` and `reset` are the base class's."""

    name = "torchrl"
    modules = ("torchrl.envs.common",)

    def install(self, module):
        self.wrap_class(module.EnvBase)

    def count_of(self, env):
        """Those of a batch; of no dimension, one."""
        return max(1, int(env.batch_size.numel()))


def _is_plain(method):
    """A function that becomes a method and returns what a step returns. Anything else that can be called (a
    partial, a cached one, a mock, a coroutine) is left alone: around it we would be something else."""
    return isinstance(method, types.FunctionType) and not method.__code__.co_flags & _LATER


def _plain_step(function):
    """Wrappers lie three and four deep: inside another's step a call costs least with the arguments named."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & _STARS or function.__defaults__ or code.co_kwonlyargcount:
        return None
    names = code.co_varnames[: code.co_argcount]
    return {("self", "action"): _step_of_one, ("self", "actions"): _step_of_many}.get(names)


def _step_of_one(original, timed, recorder):
    tracing = tracing_check()

    @functools.wraps(original)
    def step(self, action):
        if tracing() or recorder.phase == ENV:
            return original(self, action)
        return timed(self, action)

    return step


def _step_of_many(original, timed, recorder):
    tracing = tracing_check()

    @functools.wraps(original)
    def step(self, actions):
        if tracing() or recorder.phase == ENV:
            return original(self, actions)
        return timed(self, actions)

    return step


def _env_count(env):
    """`num_envs` of the environment or of what it wraps; asked so that no `__getattr__` of theirs is called:
    some of those warn."""
    for _ in range(_WRAPPERS_MAX):
        try:
            count = object.__getattribute__(env, "num_envs")
            return count if isinstance(count, int) and count > 0 else 1
        except Exception as error:  # not there, or a property of theirs that fails: what it wraps may know
            pass_on(error)
        try:
            env = object.__getattribute__(env, "env")
        except Exception as error:  # nothing inside: one environment
            pass_on(error)
            break
    return 1


def _descendants(kind):
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)
