"""`compile`: torch.compile at work. While it traces, the patches on Tensor methods are off."""

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
        self.handler = module.callback_handler
        self.handler.register_start_callback(self._starts)
        self.handler.register_end_callback(self._ends)

    def take_off(self):
        return None  # the callbacks stay registered and do nothing: removing one while it runs is not safe

    def begin(self, args):
        recorder = self.recorder
        recorder.adopt()
        return recorder.enter(COMPILE)

    def _starts(self, _arguments):
        try:
            for hook in self.agent.hooks:
                if hook.name == "transfer":
                    hook.take_off()
            self.before = self.begin(())
        except Exception as error:
            self.fail(error, "call")

    def _ends(self, _arguments):
        try:
            for hook in self.agent.hooks:
                if hook.name == "transfer" and hook.error is None:
                    hook.put_on()
            if self.before is not None:
                self.recorder.leave(self.before)
                self.before = None
        except Exception as error:
            self.fail(error, "call")
