"""Source lines: which frame of a stack is the user's, which a library's, which mere plumbing.

A place is two lines: the innermost one that is not plumbing (`leaf`), and the innermost one of the user's
own code (`user`), so that time inside a trainer library still points into the script that called it. The
lines that called `leaf` (`callers`, from the inside out) let a reader fold many small lines into the one that
leads to them.
"""

import os
import sys
import sysconfig
from opcode import opmap

from . import wire

PLUMBING, LIBRARY, USER = range(3)

# Inside these the interesting line is the caller's.
_PLUMBING_PACKAGES = ("torch", "numpy", "gymnasium", "gym", "PIL", "cv2", "_stoker_inside", "scipy", "tqdm")
# And in these of a library: every operation on its tensors goes through them.
_PASSED_THROUGH = ("__torch_function__", "__torch_dispatch__")


def _files(*names):
    return tuple(os.sep + name.replace("/", os.sep) for name in names)


# Where the standard library waits for another process: by itself, or at a lock for the answer of a pool.
_WAITING_FILES = _files(
    "multiprocessing/connection.py",
    "multiprocessing/queues.py",
    "multiprocessing/synchronize.py",
    "selectors.py",
)
_LOCKS, _POOLS = _files("threading.py"), _files("multiprocessing/pool.py", "concurrent/futures/_base.py")
# Below it a worker's stack is a copy of the training thread's, made by the fork.
_WORKER_LOOP = "_worker_loop"
# Where torch.compile keeps what it wrote itself, unless it is told another place.
_COMPILED = os.sep + "torchinductor_"
_RESUME = opmap.get("RESUME", -1)
_JUMPS = frozenset(op for name, op in opmap.items() if "JUMP_BACKWARD" in name or name == "RESUME")
_PACKAGE_FOLDERS = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


def _has_children():
    """A pool may be one of threads, that load ahead; those of processes are in multiprocessing's own list."""
    return bool(getattr(sys.modules.get("multiprocessing.process"), "_children", None))


class Places:
    def __init__(self):
        paths = sysconfig.get_paths()
        self._packages = _folders(paths.get("purelib"), paths.get("platlib"))
        self._stdlib = _folders(paths.get("stdlib"), paths.get("platstdlib"))
        self._generated = _folders(os.environ.get("TORCHINDUCTOR_CACHE_DIR"))
        self._own = os.path.dirname(os.path.abspath(__file__)) + os.sep
        self._kinds = {}
        self._ids = {}
        self.new = []

    def of(self, frame):
        """The id of the place where `frame` and its callers stand; quick, for hooks call it."""
        leaf = user = None
        while frame is not None:
            kind = self.kind(frame.f_code)
            if kind and leaf is None:
                leaf = frame
            if kind == USER:
                user = frame
                break
            frame = frame.f_back
        return self._id(_line(leaf), _line(user))

    def with_callers(self, stack):
        """The same of a stack (pulse.stack_of), with the lines that led there; for looks."""
        lines, user = [], None
        for code, number, _ in stack:
            kind = self.kind(code)
            if kind:
                if len(lines) < wire.STACK_MAX:
                    lines.append(_named(code, number))
                if kind == USER and user is None:
                    user = _named(code, number)
            elif code.co_name == _WORKER_LOOP:
                break
        return self._id(lines[0] if lines else None, user, tuple(lines[1:]))

    def waits(self, stack):
        """Does the innermost code wait for another process, at a pipe, a queue or a lock, or for a pool?"""
        wanted = _WAITING_FILES
        for code, _, _ in stack:
            filename = code.co_filename
            if filename.endswith(_LOCKS):
                wanted = _POOLS if _has_children() else ()
                continue
            return filename.endswith(wanted) and os.path.abspath(filename).startswith(self._stdlib)
        return False

    def rests(self, stack):
        """Is the innermost code the standard library's, waiting for a thread, a queue, a socket?"""
        filename = stack[0][0].co_filename if stack else ""
        return filename.endswith(_LOCKS + _WAITING_FILES) and os.path.abspath(filename).startswith(
            self._stdlib
        )

    def computes(self, stack):
        """Is the innermost code found where a jump goes back or a function begins? There it lets go of the
        interpreter only if asked to, after some 20 microseconds of nothing but Python; torch's operations let
        go of it themselves, in the middle of a call (never found at a jump, 1,700 looks, CPU, 2026-11). Code
        of torch and the like does not count, nor what it calls of the standard library."""
        code, _, at = stack[0]
        for caller, _, _ in stack:
            if self.kind(caller) != PLUMBING:
                break
            if not os.path.abspath(caller.co_filename).startswith(self._stdlib):
                return False
        return 0 <= at < len(code.co_code) and code.co_code[at] in _JUMPS

    @staticmethod
    def begins(stack):
        """Is the innermost code at the beginning of its function?"""
        code, _, at = stack[0]
        return 0 <= at < len(code.co_code) and code.co_code[at] == _RESUME

    def kind(self, code):
        filename = code.co_filename
        kind = self._kinds.get(filename)
        if kind is None:
            if len(self._kinds) >= wire.FILES_MAX:  # code made on the fly, each under a name of its own
                self._kinds.clear()
            kind = self._kinds[filename] = self._judge(filename)
        return PLUMBING if kind == LIBRARY and code.co_name in _PASSED_THROUGH else kind

    def _judge(self, filename):
        if filename == "<stdin>":
            return USER
        if filename.startswith(("<", self._own)):
            return PLUMBING
        path = os.path.abspath(filename)
        if _COMPILED in path or path.startswith(self._generated):
            return PLUMBING
        package = self._package(path)
        if package is not None:
            return PLUMBING if package in _PLUMBING_PACKAGES else LIBRARY
        return PLUMBING if path.startswith(self._stdlib) else USER

    def is_given(self, path):
        """A file or folder of Python's own library or of Stoker: not of the script or a package it needs."""
        stoker = os.path.dirname(os.path.dirname(self._own)) + os.sep
        of_python = self._package(path) is None and path.startswith(self._stdlib)
        return of_python or (path + os.sep).startswith(stoker)

    def _package(self, path):
        """The installed package a file belongs to, also one of another environment on the path."""
        for folder in self._packages:
            if path.startswith(folder):
                return _first_part(path[len(folder) :])
        for folder in _PACKAGE_FOLDERS:
            if folder in path:
                return _first_part(path.rsplit(folder, 1)[1])
        return None

    def _id(self, leaf, user, callers=()):
        if len(self._ids) >= wire.STACKS_MAX:  # many ways lead there: the line itself is what matters
            callers = ()
        key = (leaf, user, callers)
        number = self._ids.get(key)
        if number is None:
            if len(self._ids) >= wire.PLACES_MAX:
                return 0
            number = self._ids[key] = len(self._ids) + 1
            self.new.append({"id": number, "leaf": leaf, "user": user, "callers": callers})
        return number


def _first_part(path):
    return path.split(os.sep, 1)[0].split(".", 1)[0]


def _line(frame):
    return None if frame is None else _named(frame.f_code, frame.f_lineno)


def _named(code, number):
    """Some instructions have no line (Python 3.11): they are of the function as a whole."""
    number = code.co_firstlineno if number is None else number
    return (code.co_filename, number, getattr(code, "co_qualname", code.co_name))


def _folders(*paths):
    return tuple(sorted({os.path.abspath(path) + os.sep for path in paths if path}, key=len, reverse=True))
