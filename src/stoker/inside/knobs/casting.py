"""What a model returned, with bfloat16 turned into float32 wherever it lies."""

import dataclasses
import sys

_DEPTH_MAX = 8


def as_float32(value, depth=0):
    """The same object where there was nothing to turn; containers are made anew, except those that are more
    than a container (the outputs of some libraries), which are changed in place."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype is torch.bfloat16 else value
    if depth >= _DEPTH_MAX:
        return value
    if isinstance(value, tuple):
        return _tuple(value, depth)
    if isinstance(value, list):
        turned = [as_float32(one, depth + 1) for one in value]
        return value if _same(turned, value) or type(value) is not list else turned
    if isinstance(value, dict):
        return _dict(value, depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, depth)
    return value


def _same(turned, value):
    return all(new is old for new, old in zip(turned, value))


def _tuple(value, depth):
    turned = [as_float32(one, depth + 1) for one in value]
    if _same(turned, value):
        return value
    if hasattr(value, "_fields"):
        return type(value)(*turned)
    return tuple(turned) if type(value) is tuple else value


def _dict(value, depth):
    turned = {key: as_float32(one, depth + 1) for key, one in value.items()}
    changed = {key: one for key, one in turned.items() if one is not value[key]}
    if not changed:
        return value
    if type(value) is dict:
        return turned
    for key, one in changed.items():
        value[key] = one
    return value


def _dataclass(value, depth):
    for field in dataclasses.fields(value):
        old = getattr(value, field.name, None)
        new = as_float32(old, depth + 1)
        if new is not old:
            object.__setattr__(value, field.name, new)
    return value
