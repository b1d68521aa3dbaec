"""Writers that do not come through `os` or `io`: SQLite, torch's own files, the folder of a subprocess."""

import functools
import os

from ..imports import after_import


def install(shadow):
    after_import("sqlite3", lambda module: _sqlite(module, shadow))
    after_import("torch.serialization", lambda module: _paths_of(module, shadow))
    after_import("torch.jit", lambda module: _paths_of(module, shadow))
    after_import("safetensors.torch", lambda module: _safetensors(module, shadow))
    after_import("subprocess", lambda module: _subprocess(module, shadow))


def _mapped(shadow, path, writes):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return path
    named = shadow.name(path)
    if named is None:
        return path
    if not writes:
        return shadow.place(named)
    return shadow.for_writing(named, keep=False)


def _paths_of(module, shadow):
    """`save(object, path)` and `load(path)`: torch opens these itself, in C++."""
    save, load = getattr(module, "save", None), getattr(module, "load", None)
    if save is not None:

        @functools.wraps(save)
        def saved(obj, f, *args, **kwargs):
            return save(obj, _mapped(shadow, f, True), *args, **kwargs)

        module.save = saved
    if load is not None:

        @functools.wraps(load)
        def loaded(f, *args, **kwargs):
            return load(_mapped(shadow, f, False), *args, **kwargs)

        module.load = loaded


def _safetensors(module, shadow):
    save_file = module.save_file

    @functools.wraps(save_file)
    def saved(tensors, filename, *args, **kwargs):
        return save_file(tensors, _mapped(shadow, filename, True), *args, **kwargs)

    module.save_file = saved


def _sqlite(module, shadow):
    connect = module.connect

    @functools.wraps(connect)
    def connected(database, *args, **kwargs):
        return connect(_database(shadow, database, kwargs), *args, **kwargs)

    module.connect = connected
    module.dbapi2.connect = connected


def _database(shadow, database, kwargs):
    if (
        kwargs.get("uri")
        or not isinstance(database, (str, bytes, os.PathLike))
        or str(database) == ":memory:"
    ):
        return database
    named = shadow.name(database)
    return database if named is None else shadow.for_writing(named)


def _subprocess(module, shadow):
    """Its folder may exist in the shadow alone."""
    init = module.Popen.__init__

    @functools.wraps(init)
    def started(self, args, *rest, **kwargs):
        if kwargs.get("cwd") is not None:
            kwargs["cwd"] = _mapped(shadow, kwargs["cwd"], False)
        init(self, args, *rest, **kwargs)

    module.Popen.__init__ = started
