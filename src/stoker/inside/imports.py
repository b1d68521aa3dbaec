"""Run something right after a module has been imported, whoever imports it and whenever."""

import sys

_waiting = {}
_finder = None


def after_import(name, call):
    """Call `call(module)` now if `name` is imported, else just after it is."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        call(module)
        return
    _waiting.setdefault(name, []).append(call)
    global _finder
    if _finder is None:
        _finder = _Finder()
        sys.meta_path.insert(0, _finder)


def find_spec(name, path, target):
    return None if _finder is None else _finder.find_spec(name, path, target)


class _Finder:
    """Finds with the other finders, and listens to the loader of what it was asked to wait for."""

    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            return None
        spec = _find_without(self, name, path, target)
        if spec is not None and spec.loader is not None:
            _listen(spec.loader, name)
        return spec


def _find_without(finder, name, path, target):
    for other in list(sys.meta_path):
        if other is finder or not hasattr(other, "find_spec"):
            continue
        spec = other.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def _listen(loader, name):
    """The loader stays what it is; only this one instance's `exec_module` tells us when it is done."""
    execute = loader.exec_module

    def exec_module(module):
        try:
            del loader.exec_module
        except AttributeError:
            pass
        execute(module)
        for call in _waiting.pop(name, ()):
            call(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:  # a loader without a __dict__: its module stays unwatched
        _waiting.pop(name, None)
