"""`optim`: the step of every torch optimizer, and clipping; the step's end is the tick."""

import functools

from ..interruption import pass_on
from ..wire import OPTIM
from .base import Hook, without_overrides

TRAINED_MAX = 20_000


class OptimizerHook(Hook):
    """torch decorates `step` of each optimizer class on first use (`profile_hook_step`): we go with it."""

    name = "optimizer"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.names = []
        self.elements = []

    def forked(self):
        self.names = []
        self.elements = []

    def install(self, module):
        optimizer = module.optim.Optimizer
        decorate = optimizer.profile_hook_step

        @functools.wraps(decorate)
        def profile_hook_step(func):
            step = decorate(func)
            self.agent.known_as(step, OPTIM)
            return self.wrap_phase(step, OPTIM, joins=self.recorder.take_over, ends=self.stepped)

        self.patch(optimizer, "profile_hook_step", staticmethod(profile_hook_step))

    def stepped(self, optimizer, name=None):
        """Not called for a step inside a step (`super().step()`, an optimizer around another): one tick."""
        index = self.recorder.optimizer_stepped(optimizer)
        if index >= len(self.names):
            self.elements.append(_elements(optimizer, self.recorder.trained))
            self.names.append(name or type(optimizer).__name__)
            self.agent.note_rank()


def _elements(optimizer, trained):
    """How many numbers it trains on each kind of device: a part of a model left on the CPU shows here. Once
    for each optimizer; what cannot be told is left out. `trained` gets the ids of its parameters."""
    counted = {}
    try:
        with without_overrides():
            for group in optimizer.param_groups:
                for one in group["params"]:
                    if len(trained) < TRAINED_MAX:
                        trained.add(id(one))
                    counted[one.device.type] = counted.get(one.device.type, 0) + one.numel()
    except Exception as error:
        pass_on(error)
        return None
    return counted


class ClipHook(Hook):
    name = "clip"
    modules = ("torch",)

    def install(self, module):
        """One wrapper in both places: functions are pickled by where they are found."""
        utils = module.nn.utils
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            original = getattr(utils, name, None)
            if original is None:
                continue
            self.agent.known_as(_innermost(original), OPTIM)
            wrapped = self.wrap_phase(original, OPTIM)
            for place in (utils, getattr(utils, "clip_grad", None)):
                if getattr(place, name, None) is original:
                    self.patch(place, name, wrapped)


def _innermost(function):
    """Without its decorators, whose code other functions share."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
