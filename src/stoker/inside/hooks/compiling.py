"""`compile`: torch.compile at work. While it traces, the patches on Tensor methods are off."""

import functools

from ..originals import get_ident as _get_ident
from ..wire import COMPILE
from .base import Hook


class CompileHook(Hook):
    name = "compile"
    modules = ("torch._dynamo.callback",)

    def __init__(self, agent):
        super().__init__(agent)
        self.before = None

    def forked(self):
        self.before = None

    def install(self, module):
        """Not by registering: torch._dynamo.reset() throws out whatever is registered."""
        handler = module.CompilationCallbackHandler
        self._call_first(handler, "run_start_callbacks", self._starts)
        self._call_first(handler, "run_end_callbacks", self._ends)

    def _call_first(self, owner, name, ours):
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args, **kwargs):
            ours()
            return original(*args, **kwargs)

        self.patch(owner, name, call)

    def begin(self, args):
        """None in a thread that is not the training's: its compiling costs the training nothing."""
        recorder = self.recorder
        if _get_ident() != recorder.owner and not recorder.adopt():
            return None
        return recorder.enter(COMPILE)

    def _starts(self):
        try:
            for hook in self.agent.on_tensors:  # knobs, above ours
                hook.take_off()
            self.agent.hook("transfer").take_off()
            self.before = self.begin(())
        except Exception as error:
            self.fail(error, "call")

    def _ends(self):
        try:
            transfer = self.agent.hook("transfer")
            if transfer.error is None:
                transfer.put_on()
            for hook in self.agent.on_tensors:
                if hook.error is None:
                    hook.put_on()
            if self.before is not None:
                self.recorder.leave(self.before)
                self.before = None
        except Exception as error:
            self.fail(error, "call")
