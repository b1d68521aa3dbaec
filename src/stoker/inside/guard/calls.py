"""The calls of `os`, `io` and `builtins` that name a file, wrapped so that each goes where the shadow says.

A call with a descriptor, or with a path that is not guarded, is passed on as it came. An error speaks of the
path the script gave, not of the shadow. With the wrapped functions `shutil` finds no calls relative to a
descriptor (`os.supports_dir_fd` holds the true ones) and takes its plain way, the one that is wrapped.
"""

import builtins
import functools
import io
import os
import stat
import sys

from .shadow import true, true_open

_READ = ("stat", "lstat", "access", "readlink", "getxattr", "listxattr", "statvfs", "pathconf", "chroot")
_CHANGE = ("chmod", "chown", "utime", "truncate", "setxattr", "removexattr", "lchown")
_NO_FOLLOW = ("lstat", "readlink", "lchown")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def install(shadow):
    opened = _open(shadow)
    builtins.open = io.open = opened
    os.open = _os_open(shadow)
    for name in _READ:
        _wrap(name, _reading(shadow, name))
    for name in _CHANGE:
        _wrap(name, _changing(shadow, name))
    os.mkdir = _named_error(os.mkdir, _mkdir(shadow))
    os.unlink = _named_error(os.unlink, _removing(shadow, "unlink"))
    os.remove = _named_error(os.remove, _removing(shadow, "unlink"))
    os.rmdir = _named_error(os.rmdir, _removing(shadow, "rmdir"))
    os.rename = _named_error(os.rename, _renaming(shadow, "rename"))
    os.replace = _named_error(os.replace, _renaming(shadow, "replace"))
    os.symlink = _named_error(os.symlink, _linking(shadow, "symlink"))
    os.link = _named_error(os.link, _linking(shadow, "link"))
    os.listdir = _named_error(os.listdir, _listdir(shadow))
    os.scandir = _named_error(os.scandir, _scandir(shadow))
    os.chdir = _named_error(os.chdir, _chdir(shadow))
    os.getcwd = functools.wraps(true["getcwd"])(lambda: shadow.cwd())
    os.getcwdb = lambda: os.fsencode(shadow.cwd())
    if "shutil" in sys.modules:
        sys.modules["shutil"]._use_fd_functions = False


def _wrap(name, wrapper):
    function = getattr(os, name, None)
    if function is not None:
        setattr(os, name, _named_error(function, wrapper(function)))


def _named_error(function, wrapper):
    """Errors name the path as the caller wrote it."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return wrapper(*args, **kwargs)
        except OSError as error:
            if error.filename is not None and args:
                error.filename = args[0]
            raise

    return call


def _reading(shadow, name):
    follow_always = name not in _NO_FOLLOW

    def wrapper(function):
        def call(path, *args, **kwargs):
            dir_fd = kwargs.get("dir_fd")
            named = shadow.name(path, dir_fd, follow_always and kwargs.get("follow_symlinks", True))
            if named is None:
                return function(path, *args, **kwargs)
            kwargs.pop("dir_fd", None)
            return function(shadow.place(named), *args, **kwargs)

        return call

    return wrapper


def _changing(shadow, name):
    def wrapper(function):
        def call(path, *args, **kwargs):
            named = shadow.name(path, kwargs.get("dir_fd"), kwargs.get("follow_symlinks", name != "lchown"))
            if named is None:
                return function(path, *args, **kwargs)
            kwargs.pop("dir_fd", None)
            if shadow.exists(named):
                return function(shadow.for_writing(named), *args, **kwargs)
            return function(shadow.place(named), *args, **kwargs)

        return call

    return wrapper


def _place_for(shadow, named, writes, truncates, exclusive):
    if not writes:
        return shadow.place(named)
    if exclusive and shadow.exists(named):
        raise FileExistsError(17, os.strerror(17), named)
    if shadow.is_folder(named):
        return shadow.place(named)  # fails as it should
    return shadow.for_writing(named, keep=not truncates)


def _open(shadow):
    def opened(file, mode="r", *args, **kwargs):
        named = None
        if not isinstance(file, int) and not kwargs.get("opener") and len(args) < 6:
            try:
                named = shadow.name(file)
            except TypeError:
                named = None
        if named is None or not isinstance(mode, str):
            return true_open(file, mode, *args, **kwargs)
        writes = any(letter in mode for letter in "wax+")
        return true_open(_place_for(shadow, named, writes, "w" in mode, "x" in mode), mode, *args, **kwargs)

    call = _named_error(true_open, opened)
    call.__module__, call.__qualname__ = "io", "open"
    return call


def _os_open(shadow):
    def opened(path, flags, mode=0o777, *, dir_fd=None):
        named = shadow.name(path, dir_fd, not flags & getattr(os, "O_NOFOLLOW", 0))
        if named is None:
            return true["open"](path, flags, mode, dir_fd=dir_fd)
        exclusive = flags & os.O_EXCL and flags & os.O_CREAT
        empty = flags & os.O_TRUNC and flags & os.O_CREAT  # else it must be there to be emptied
        place = _place_for(shadow, named, flags & _WRITES, empty, exclusive)
        return true["open"](place, flags, mode)

    return _named_error(true["open"], opened)


def _mkdir(shadow):
    def mkdir(path, mode=0o777, *, dir_fd=None):
        named = shadow.name(path, dir_fd)
        if named is None:
            return true["mkdir"](path, mode, dir_fd=dir_fd)
        if shadow.exists(named):
            raise FileExistsError(17, os.strerror(17), named)
        shadow.make_parent(named)
        return true["mkdir"](shadow.tree + named, mode)

    return mkdir


def _removing(shadow, name):
    def remove(path, *, dir_fd=None):
        named = shadow.name(path, dir_fd, follow=False)
        if named is None:
            return true[name](path, dir_fd=dir_fd)
        return shadow.remove(named, folder=name == "rmdir")

    return remove


def _renaming(shadow, name):
    def rename(src, dst, *, src_dir_fd=None, dst_dir_fd=None):
        source, target = (
            shadow.name(src, src_dir_fd, follow=False),
            shadow.name(dst, dst_dir_fd, follow=False),
        )
        if source is None and target is None:
            return true[name](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if source is None:  # from a temporary folder into the user's
            shadow.make_parent(target)
            return true[name](src, shadow.tree + target)
        if target is None:
            shadow.copy_up(source)
            true[name](shadow.tree + source, dst)
            return shadow.forget(source)
        return shadow.rename(source, target)

    return rename


def _linking(shadow, name):
    def link(src, dst, *args, **kwargs):
        target = shadow.name(dst, kwargs.pop("dir_fd", None), follow=False)
        if target is None:
            return true[name](src, dst, *args, **kwargs)
        if shadow.exists(target):
            raise FileExistsError(17, os.strerror(17), target)
        shadow.make_parent(target)
        if name == "link":
            source = shadow.name(src)
            src = src if source is None else shadow.for_writing(source)
        return true[name](src, shadow.tree + target, *args, **kwargs)

    return link


def _listdir(shadow):
    def listdir(path="."):
        named = None if path is None or isinstance(path, int) else shadow.name(path)
        if named is None:
            return true["listdir"]("." if path is None else path)
        names = shadow.listing(named)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    return listdir


def _scandir(shadow):
    def scandir(path="."):
        path = "." if path is None else path
        named = None if isinstance(path, int) else shadow.name(path)
        if named is None:
            return true["scandir"](path)
        return Entries(shadow, os.fspath(path), shadow.listing(named))

    return scandir


def _chdir(shadow):
    def chdir(path):
        named = shadow.name(path)
        return true["chdir"](path if named is None else shadow.place(named))

    return chdir


class Entries:
    """What `os.scandir` gives: an iterator that is a context, too."""

    def __init__(self, shadow, folder, names):
        raw = isinstance(folder, bytes)
        self._entries = iter([Entry(shadow, folder, os.fsencode(n) if raw else n) for n in names])

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._entries = iter(())


class Entry:
    def __init__(self, shadow, folder, name):
        self.name = name
        self.path = os.path.join(folder, name)

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return "<DirEntry %r>" % (self.name,)

    def stat(self, *, follow_symlinks=True):
        return os.stat(self.path) if follow_symlinks else os.lstat(self.path)

    def inode(self):
        return os.lstat(self.path).st_ino

    def is_dir(self, *, follow_symlinks=True):
        return self._is(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks=True):
        return self._is(stat.S_ISREG, follow_symlinks)

    def is_symlink(self):
        return self._is(stat.S_ISLNK, False)

    def is_junction(self):
        return False

    def _is(self, test, follow):
        try:
            return test(self.stat(follow_symlinks=follow).st_mode)
        except FileNotFoundError:
            return False
