"""Evaluation that libraries do in one known function; the rest is told from model.eval() without backward."""

from .base import Hook


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
