"""`compile`: torch.compile at work. While it traces, the patches on Tensor methods are off."""

import threading

from ..wire import COMPILE
from .base import Hook

_get_ident = threading.get_ident


class CompileHook(Hook):
    name = "compile"
    modules = ("torch._dynamo.callback",)

    def __init__(self, agent):
        super().__init__(agent)
        self.before = None

    def forked(self):
        self.before = None

    def install(self, module):
        self.handler = module.callback_handler
        self.handler.register_start_callback(self._starts)
        self.handler.register_end_callback(self._ends)

    def take_off(self):
        return None  # the callbacks stay registered and do nothing: removing one while it runs is not safe

    def begin(self, args):
        """None in a thread that is not the training's: its compiling costs the training nothing."""
        recorder = self.recorder
        if _get_ident() != recorder.owner and not recorder.adopt():
            return None
        return recorder.enter(COMPILE)

    def _starts(self, _arguments):
        try:
            self.agent.hook("transfer").take_off()
            self.before = self.begin(())
        except Exception as error:
            self.fail(error, "call")

    def _ends(self, _arguments):
        try:
            transfer = self.agent.hook("transfer")
            if transfer.error is None:
                transfer.put_on()
            if self.before is not None:
                self.recorder.leave(self.before)
                self.before = None
        except Exception as error:
            self.fail(error, "call")
