from types import SimpleNamespace


class Module:
    _compiled_call_impl = None
    training = True

    def eval(self):
        self.training = False

    def train(self):
        self.training = True

    def _call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def _wrapped_call_impl(self, *args, **kwargs):
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    __call__ = _wrapped_call_impl


class Linear(Module):
    def forward(self, batch):
        return sum(i * i for i in range(300)) + len(batch)


def clip_grad_norm_(parameters, limit):
    return limit


utils = SimpleNamespace(clip_grad_norm_=clip_grad_norm_)
