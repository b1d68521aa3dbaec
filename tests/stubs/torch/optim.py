import functools


class Optimizer:
    def __init__(self):
        if not getattr(type(self).step, "hooked", False):
            type(self).step = self.profile_hook_step(type(self).step)
            type(self).step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapper

    def zero_grad(self):
        return None


class SGD(Optimizer):
    def step(self):
        return sum(i * i for i in range(300))
