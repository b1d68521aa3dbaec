"""`optim`: the step of every torch optimizer, zero_grad, and clipping; the step's end is the tick."""

import functools
import threading

from ..dynamo import tracing_check
from ..wire import OPTIM
from .base import Hook

_get_ident = threading.get_ident


class OptimizerHook(Hook):
    """torch decorates `step` of each optimizer class on first use (`profile_hook_step`): we go with it."""

    name = "optimizer"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.names = []
        self.stepping = None

    def forked(self):
        self.names = []
        self.stepping = None

    def install(self, module):
        optimizer = module.optim.Optimizer
        decorate = optimizer.profile_hook_step

        @functools.wraps(decorate)
        def profile_hook_step(func):
            return self._wrap_step(decorate(func))

        self.patch(optimizer, "profile_hook_step", staticmethod(profile_hook_step))
        self.patch(optimizer, "zero_grad", self.part(ZeroGradHook).wrap(optimizer.zero_grad))

    def _wrap_step(self, step):
        wrapped, recorder, tracing = self.wrap(step), self.recorder, tracing_check()

        @functools.wraps(step)
        def call(*args, **kwargs):
            if tracing():
                return step(*args, **kwargs)
            # An optimizer stepped by another thread than the first we saw: that one is the training.
            if _get_ident() != recorder.owner:
                recorder.take_over()
            return wrapped(*args, **kwargs)

        return call

    def begin(self, args):
        outer, self.stepping = self.stepping, args[0]
        return self.recorder.enter(OPTIM), outer

    def end(self, token, args, result):
        recorder = self.recorder
        before, self.stepping = token
        recorder.leave(before)
        if self.stepping is args[0]:  # super().step() of a subclass: one step, not two
            return
        index = recorder.optimizer_stepped(args[0])
        if index >= len(self.names):
            self.names.append(type(args[0]).__name__)
            self.agent.note_rank()


class ZeroGradHook(Hook):
    name = "zero_grad"

    def begin(self, args):
        return self.recorder.enter(OPTIM)


class ClipHook(Hook):
    name = "clip"
    modules = ("torch",)

    def install(self, module):
        utils = module.nn.utils
        for place in (utils, getattr(utils, "clip_grad", None)):
            for function in ("clip_grad_norm_", "clip_grad_value_"):
                if hasattr(place, function):
                    self.patch(place, function, self.wrap(getattr(place, function)))

    def begin(self, args):
        return self.recorder.enter(OPTIM)
