"""Evaluation that libraries do in one known function; the rest is told from model.eval() without backward."""

from time import perf_counter

from .base import Hook

EVERY_S = 1.0


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
    passed over nobody would see the model's calls: it is looked at as a whole, once a second at most."""

    name = "eval_mode"
    modules = ("torch",)

    def __init__(self, agent):
        super().__init__(agent)
        self.last = 0.0

    def install(self, module):
        base = module.nn.Module
        self.patch(base, "eval", self.wrap(base.eval))

    def begin(self, args):
        recorder, now = self.recorder, perf_counter()
        if recorder.deferring and not recorder.within and now - self.last >= EVERY_S:
            self.last = now
            recorder.thinning.look_closely()

    def end(self, token, args, result):
        """Nothing is timed."""
