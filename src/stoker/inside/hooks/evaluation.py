"""Evaluation that libraries do in one known function; the rest is told from model.eval() without backward."""

import functools

from ..dynamo import tracing_check
from ..originals import get_ident as _get_ident
from ..originals import perf_counter
from ..wire import THIN
from .base import Hook

EVERY_S = 0.2


class _EvalHook(Hook):
    def begin(self, args):
        self.recorder.named_eval_begins()
        return True

    def end(self, token, args, result):
        if token:
            self.recorder.named_eval_ends()


class Sb3EvalHook(_EvalHook):
    name = "sb3_eval"
    modules = ("stable_baselines3.common.evaluation",)

    def install(self, module):
        self.patch(module, "evaluate_policy", self.wrap(module.evaluate_policy))


class LightningEvalHook(_EvalHook):
    name = "lightning_eval"
    modules = ("lightning.pytorch.loops.evaluation_loop", "pytorch_lightning.loops.evaluation_loop")

    def install(self, module):
        loop = module._EvaluationLoop
        self.patch(loop, "run", self.wrap(loop.run))


class EvalModeHook(Hook):
    """`model.eval()`: what follows may be an evaluation, of tensors in memory too. In a stretch that is
    passed over nobody would see it: the model's next call tells, as after a loader was opened. Not more often
    than EVERY_S: some call it in every tick."""

    name = "eval_mode"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.last = 0.0

    def install(self, module):
        base = module.nn.Module
        self.patch(base, "eval", self._noticed(base.eval))

    def _noticed(self, original):
        hook, recorder, tracing = self, self.recorder, tracing_check()

        @functools.wraps(original)
        def eval(self):
            if not tracing() and _get_ident() == recorder.owner:
                try:
                    hook.begin((self,))
                except Exception as error:
                    hook.fail(error, "call")
            return original(self)

        return eval

    def begin(self, args):
        now = perf_counter()
        if self.recorder.phase == THIN and now - self.last >= EVERY_S:
            self.last = now
            self.recorder.opened = True
