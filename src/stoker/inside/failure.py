"""An uncaught exception as plain data: type, message, line, and the class it belongs to."""

import traceback

_MEMORY = ("out of memory", "failed to allocate", "can't allocate memory", "cannot allocate memory")


def describe(error, places):
    frames = traceback.extract_tb(error.__traceback__)
    walked = list(traceback.walk_tb(error.__traceback__))
    user = [frame for frame, (raw, _) in zip(frames, walked) if places.kind(raw.f_code) == 2]
    line = (user or frames or [None])[-1]
    message = _message(error)
    if isinstance(error, SyntaxError) and error.filename:  # its own line, not the one that imported it
        return {**_named(error, message), "file": error.filename, "line": error.lineno, "function": None}
    return {
        **_named(error, message),
        "file": line.filename if line else None,
        "line": line.lineno if line else None,
        "function": line.name if line else None,
    }


def _named(error, message):
    return {
        "type": type(error).__name__,
        "module": type(error).__module__,
        "message": message[:2000],
        "class": classify(type(error).__name__, message),
    }


def _message(error):
    try:
        return str(error)
    except Exception:  # an exception class of the user's with a broken __str__
        return ""


def classify(name, message):
    text = message.lower()
    if name in ("OutOfMemoryError", "MemoryError") or any(phrase in text for phrase in _MEMORY):
        return "out of memory"
    if name == "KeyboardInterrupt":
        return "interrupted"
    return "exception"
