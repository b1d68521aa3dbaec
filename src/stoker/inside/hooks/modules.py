"""The model's call: `forward` where gradients are recorded, `infer` where they are not.

`torch.nn.Module.__call__` runs for every layer, so the replacement costs one comparison there: it does what
torch's own two-line `_wrapped_call_impl` does, in its place, and looks closer only at the outermost call. In
a stretch that is passed over (`thinning`) one thing is asked: is the first call after a loader was opened one
without gradients? Then what begins is perhaps no training.
"""

import sys

from ..interruption import pass_on
from ..originals import get_ident as _get_ident
from ..originals import perf_counter
from ..recorder import TRANSPARENT
from ..wire import DATA, ENV, EVAL, FORWARD, INFER, OPTIM, OTHER, THIN, TRAIN
from .base import Hook, without_overrides
from .optimizers import TRAINED_MAX

DIMENSIONS_MAX = 6
ASKED_MAX = 64
"""Between two writings."""
DEPTH_MAX = 100
MODULES_MAX = 10_000
_HOSTS = (DATA, ENV)
"""Code that calls modules of its own, which are no models."""
_KNOWN_NAMES = ("_compiled_call_impl", "_call_impl")


class ModuleHook(Hook):
    name = "module"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.is_tracing = lambda: False

    def install(self, module):
        self.is_grad_enabled = module.is_grad_enabled
        self.is_tracing = getattr(getattr(module, "_C", None), "_is_tracing", self.is_tracing)
        base = module.nn.Module
        original = base.__call__
        inner = getattr(original, "__code__", None)
        replacement = self._replaced(original, inner is not None and inner.co_names == _KNOWN_NAMES)
        # Traced in our place. No method's `self` is lost here: torch calls the module, not its `__call__`.
        replacement._torchdynamo_inline = original
        replacement.__name__, replacement.__qualname__ = original.__name__, original.__qualname__
        replacement.__module__ = original.__module__
        self.agent.known_as(replacement, FORWARD)
        self.patch(base, "__call__", replacement)

    def arm_fault(self):
        super().arm_fault()
        if self.tripwire is not None:  # a fault for the tests: every call is to be counted, none passed over
            self.recorder.thinning.hold("fault")

    def begin(self, graph, module, args):
        """Once a second the batch is looked at too, and what a model is given without gradients, and in which
        mode one that is trained is asked so; of the latter the first is after each of the first looks, too
        (`Pulse.look`). The rest is written out in `_outermost`."""
        if self.is_tracing():  # torch.jit would write down that a size was asked for
            return
        recorder = self.recorder
        with without_overrides():
            shape = _shape(args)
        recorder.want_shapes[graph] = False
        caller = sys._getframe(2).f_back  # of the module, whose call we are in; a thread may begin with it
        if caller is not None:
            self.agent.pulse.called_at(caller.f_code, caller.f_lineno, FORWARD if graph else INFER)
        if shape:
            recorder.batch_rows = shape[0]
        known_by = _first_parameter(module)
        if not graph:
            place = 0
            if known_by in recorder.trained:
                place = self.agent.places.with_callers(_stack(sys._getframe(1)))
            if recorder.stage is TRAIN and len(recorder.asked) < ASKED_MAX:
                recorder.asked.append((shape, -place if module.training else place))
            return
        recorder.given = shape
        if module.training and known_by is not None and len(recorder.trained) < TRAINED_MAX:
            recorder.trained.add(known_by)

    def _replaced(self, original, in_place=False):
        """`in_place`: torch's own code is known, and written out here."""
        recorder, outermost, is_grad_enabled = self.recorder, self._outermost(original), self.is_grad_enabled

        def __call__(self, *args, **kwargs):
            if not recorder.modeled:
                phase = recorder.phase
                if not TRANSPARENT[phase] and (_get_ident() == recorder.owner or recorder.adopt()):
                    return outermost(self, args, kwargs)
                if phase == THIN:
                    if is_grad_enabled():
                        if _get_ident() == recorder.owner:
                            recorder.modeled, recorder.opened = True, False
                    elif recorder.opened and not recorder.within and _get_ident() == recorder.owner:
                        recorder.thinning.look_closely()
                        return outermost(self, args, kwargs)
            if not in_place:
                return original(self, *args, **kwargs)
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)

        return __call__

    def _outermost(self, original):
        """`Hook.wrap_phase`, with the phase chosen at each call."""
        hook, recorder, is_grad_enabled = self, self.recorder, self.is_grad_enabled

        def outermost(module, args, kwargs):
            if recorder.phase in _HOSTS and not _learns(module):
                return original(module, *args, **kwargs)
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                graph = is_grad_enabled()
                if recorder.want_shapes[graph]:
                    hook.begin(graph, module, args)
                if recorder.stage is EVAL or not (graph or module.training):
                    recorder.may_be_eval(graph)
                elif graph:
                    recorder.eval_candidate = None
                if recorder.collected:
                    recorder.read_collected()
                before = gap = recorder.phase
                start = perf_counter()
                graphs = graph  # a loss needs gradients: of this call, or of one before it
                if recorder.after_model or before == OPTIM:
                    if recorder.after_model:
                        gap, graphs = recorder.loss_ends(), True
                    else:
                        gap = recorder.closure_begins()
                    recorder.after_model = False
                recorder.totals[gap] += start - recorder.since
                recorder.since = start
                recorder.phase = phase = FORWARD if graph else INFER
                recorder.counts[phase] += 1
            except Exception as error:
                hook.fail(error, "call")
                return original(module, *args, **kwargs)
            try:
                return original(module, *args, **kwargs)
            finally:
                try:
                    if recorder.collected:
                        recorder.read_collected()
                    now = perf_counter()
                    recorder.totals[recorder.phase] += now - recorder.since
                    recorder.since = now
                    recorder.phase = before
                    recorder.after_model = graphs and (before == OTHER or before == OPTIM)
                    recorder.loose_s = 0.0
                    if not graph:
                        recorder.pending_infer_s += now - start
                except Exception as error:
                    hook.fail(error, "call")

        return outermost


def _learns(module):
    """Has it parameters? If not it is no model: a transform of a data set, a part of an environment."""
    try:
        return bool(module._parameters or module._modules and _parameter(module) is not None)
    except Exception as error:  # a module of its own kind
        pass_on(error)
        return True


def _stack(frame):
    """As pulse.stack_of."""
    stack = []
    while frame is not None and len(stack) < DEPTH_MAX:
        stack.append((frame.f_code, frame.f_lineno, frame.f_lasti))
        frame = frame.f_back
    return stack


def _first_parameter(module):
    """What a model is known by, also where something is wrapped around it; None where there is none."""
    try:
        parameter = _parameter(module)
    except Exception as error:  # a module of its own kind
        pass_on(error)
        return None
    return None if parameter is None else id(parameter)


def _parameter(module):
    """The first of `module.parameters()`, which is not called: a script may have its own."""
    waiting = [module]
    for _ in range(MODULES_MAX):
        if not waiting:
            break
        fields = vars(waiting.pop())
        for parameter in fields["_parameters"].values():
            if parameter is not None:
                return parameter
        waiting.extend(part for part in reversed(list(fields["_modules"].values())) if part is not None)
    return None


def _shape(args):
    """Of the first tensor given to the model: the batch as the model sees it. A size that is a symbol (fake
    tensors, Keras) is not asked for its number: torch would take the model for one of that size alone."""
    for value in args:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and shape:
            shape = list(shape[:DIMENSIONS_MAX])
            return shape if all(type(size) is int for size in shape) else None
    return None
