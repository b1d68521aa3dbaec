"""torch.compile must not notice us: it neither traces our code nor compiles it.

Two cases. Traced code calls something we have wrapped: the wrapper asks `tracing()` first, which
torch.compile takes for a constant, True, and so it goes on into what is wrapped. Or code that runs beside
compiled code calls a wrapper: then our frames are candidates for compiling, and have to be marked.
"""

import sys
import types


def tracing_check():
    """(torch's `_torchdynamo_inline` would do for functions; a method traced so loses its `self` at a graph
    break: torch 2.13.)"""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return getattr(compiler, "is_dynamo_compiling", _never)


def _never():
    return False


def hide_from_dynamo():
    """Mark every piece of code of this package as not to be compiled."""
    skip = _skip_of(sys.modules.get("torch._C._dynamo.eval_frame"))
    if skip is not None:
        for code in _own_code():
            skip(code)


def hide_code(code):
    """One more."""
    skip = _skip_of(sys.modules.get("torch._C._dynamo.eval_frame"))
    if skip is not None:
        skip(code)


def _skip_of(evaluation):
    """From about torch 2.6 on a strategy is set, before that there was one function; older ones have none."""
    if hasattr(evaluation, "set_code_exec_strategy"):
        skip, usual = evaluation._FrameAction.SKIP, evaluation._FrameAction.DEFAULT
        strategy = evaluation._FrameExecStrategy(skip, usual)
        return lambda code: evaluation.set_code_exec_strategy(code, strategy)
    return getattr(evaluation, "skip_code", None)


def _own_code():
    package = __name__.rpartition(".")[0]
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(package + "."):
            for value in list(vars(module).values()):
                if getattr(value, "__module__", None) == name:
                    yield from _code_of(value)


def _code_of(value):
    if isinstance(value, types.FunctionType):
        yield from _with_nested(value.__code__)
    elif isinstance(value, type):
        for member in list(vars(value).values()):
            if isinstance(member, types.FunctionType):
                yield from _with_nested(member.__code__)


def _with_nested(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_nested(constant)
