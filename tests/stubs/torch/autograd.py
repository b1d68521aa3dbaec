_enabled = [True]


def is_grad_enabled():
    return _enabled[-1]


class no_grad:
    def __enter__(self):
        _enabled.append(False)

    def __exit__(self, *exception):
        _enabled.pop()


def backward(tensors):
    return sum(i * i for i in range(300))


def grad(outputs, inputs):
    return backward(outputs)


class profiler:
    class record_function:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            return None
