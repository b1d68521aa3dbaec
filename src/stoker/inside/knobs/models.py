"""`bf16`, `channels_last`: around the outermost call of every model, and the facts of that call.

A model is a module with parameters; a loss without any is left alone (some refuse autocast). Inside traced
code nothing is done: torch.compile goes straight through (`_torchdynamo_inline`).
"""

import contextlib
import sys
import threading
import weakref

from ..hooks.base import Hook
from .base import RuntimeKnob
from .casting import as_float32
from .facts import autocast_dtype


class ModelCalls(Hook):
    """The one wrapper of `Module.__call__` that the knobs of a model share."""

    name = "knob_models"
    modules = ("torch",)

    def __init__(self, agent, knobs, facts):
        super().__init__(agent)
        self.knobs = knobs
        self.facts = facts
        self.sizes = weakref.WeakKeyDictionary()

    def install(self, module):
        base = module.nn.Module
        original, hook, thread = base.__call__, self, threading.local()

        def __call__(self, *args, **kwargs):
            if getattr(thread, "inside", False):
                return original(self, *args, **kwargs)
            thread.inside = True
            try:
                return hook.outermost(original, self, args, kwargs)
            finally:
                thread.inside = False

        __call__._torchdynamo_inline = getattr(original, "_torchdynamo_inline", original)
        __call__.__name__, __call__.__qualname__ = original.__name__, original.__qualname__
        self.patch(base, "__call__", __call__)

    def fail(self, error, when):
        super().fail(error, when)
        for knob in self.knobs:
            knob.fail(error, when)

    def outermost(self, original, module, args, kwargs):
        context = None
        try:
            if self.tripwire is not None:
                self.tripwire()
            size = self.sizes.get(module)
            if size is None:
                size = self.sizes[module] = _size(module)
            if size:
                for knob in self.knobs:
                    args, kwargs, context = knob.around(module, args, kwargs, context)
        except Exception as error:
            self.fail(error, "call")
            size, context = 0, None
        with context or contextlib.nullcontext():
            if size:
                self.facts.of_call(module, size, args)
            result = original(module, *args, **kwargs)
        return result if context is None else self._leaving(result)

    def _leaving(self, result):
        try:
            return as_float32(result)
        except Exception as error:
            self.fail(error, "call")
            return result


def _size(module):
    """Parameters; one that is not made yet counts as one."""
    total = 0
    for parameter in module.parameters() if hasattr(module, "parameters") else ():
        try:
            total += parameter.numel()
        except Exception:
            total += 1
    return total


class ModelKnob(RuntimeKnob):
    unused = "no model was called"

    def install(self, module):
        """`ModelCalls` calls it."""

    def __init__(self, agent, value):
        super().__init__(agent, value)
        self.left = weakref.WeakSet()

    def around(self, module, args, kwargs, context):
        if self.error is not None:
            return args, kwargs, context
        try:
            if self.tripwire is not None:
                self.tripwire()
            if self.value != "off":
                return self.change(module, args, kwargs, context)
            if module not in self.left:
                self.left.add(module)
                self._leave(self.by_script(module))
        except Exception as error:
            self.fail(error, "call")
        return args, kwargs, context

    def _leave(self, found):
        if found:
            self.refuse("the script does it itself (%s): it can only be taken out there" % found)
        else:
            self.found("left as the script has it")


class Bf16(ModelKnob):
    knob = "bf16"

    def change(self, module, args, kwargs, context):
        torch = sys.modules["torch"]
        parameter = next(module.parameters())
        device, present = parameter.device.type, self.by_script(module)
        if present:
            self.found("already set by the script: %s" % present)
        elif device not in ("cpu", "cuda"):
            self.refuse("not on a device called %s" % device)
        elif device == "cuda" and torch.cuda.get_device_capability(parameter.device)[0] < 8:
            self.refuse("this GPU has no bfloat16")
        else:
            self.did("autocast around %s on %s" % (type(module).__name__, device))
            capturing = device == "cuda" and torch.cuda.is_current_stream_capturing()
            context = torch.autocast(device, dtype=torch.bfloat16, cache_enabled=not capturing)
        return args, kwargs, context

    def by_script(self, module):
        parameter = next(module.parameters())
        present = autocast_dtype(parameter.device.type)
        if present is not None:
            return "autocast to %s" % present
        plain = parameter.dtype == sys.modules["torch"].float32
        return "" if plain else "the model is in %s" % parameter.dtype


class ChannelsLast(ModelKnob):
    knob = "channels_last"
    unused = "no model with a 2-d convolution was called"

    def __init__(self, agent, value):
        super().__init__(agent, value)
        self.plans = weakref.WeakKeyDictionary()

    def change(self, module, args, kwargs, context):
        plan = self.plans.get(module)
        if plan is None:
            plan = self.plans[module] = self._convert(module)
        if plan == "convert":
            args = tuple(map(_channels_last, args))
            kwargs = {name: _channels_last(value) for name, value in kwargs.items()}
        return args, kwargs, context

    def by_script(self, module):
        last = sys.modules["torch"].channels_last
        wide = [w for w in _filters(module) if w.shape[1] > 1 and w.shape[2] * w.shape[3] > 1]
        done = wide and all(weight.is_contiguous(memory_format=last) for weight in wide)
        return type(module).__name__ if done else ""

    def _convert(self, module):
        weights, name = _filters(module), type(module).__name__
        if not weights:
            return "nothing"
        if self.by_script(module):
            self.found("already set by the script: %s" % name)
        elif hasattr(module, "reducer") or hasattr(module, "_fsdp_wrapped_module"):
            self.refuse("%s: its gradients are laid out already" % name)
        elif any(weight.grad is not None for weight in weights):
            self.refuse("%s: it has gradients already" % name)
        else:
            module.to(memory_format=sys.modules["torch"].channels_last)
            self.did("%s: %d convolutions" % (name, len(weights)))
            return "convert"
        return "nothing"


def _filters(module):
    convolution = sys.modules["torch"].nn.Conv2d
    return [part.weight for part in module.modules() if isinstance(part, convolution)]


def _channels_last(value):
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_floating_point():
        return value.contiguous(memory_format=torch.channels_last)
    return value
