"""Reaches every Python process of a run. Must parse on 3.6, do next to nothing, and hide nobody.

Python imports the first `sitecustomize` on its path: this one. It arms an import hook (torch and the
environment libraries are patched when THEY are imported, never before), takes its own folder off the path,
and then runs the `sitecustomize` it stands in front of, if there is one.
"""

import os
import sys

_WATCHED = ("torch", "gymnasium", "gym", "stable_baselines3")
_kept = {}


class _Doorbell(object):
    """A finder that only listens: it loads the agent just before the first watched module is imported."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            agent = _agent()
            if agent is not None:  # its own finder came too late for this very import
                return agent.find_spec(name, path, target)
        return None


def _load_package():
    """The package beside this folder, under a private name."""
    if "_stoker_inside" in sys.modules:
        return
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    spec = spec_from_file_location(
        "_stoker_inside", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = module_from_spec(spec)
    module.kept = _kept
    sys.modules["_stoker_inside"] = module
    spec.loader.exec_module(module)


def _agent():
    """Load the package and start its agent."""
    try:
        _load_package()
        from _stoker_inside import agent

        agent.start()
        return agent
    except Exception:  # the training goes on unwatched
        return None


def _at_exit():
    """An uncaught exception is left by the interpreter in `sys.last_value`: no excepthook is touched."""
    error = getattr(sys, "last_value", None)
    if error is not None:
        agent = _agent()
        if agent is not None:
            agent.report_failure()
    if isinstance(error, KeyboardInterrupt) and not hasattr(sys, "ps1"):  # one at a prompt is over
        _stay_interrupted()


def _stay_interrupted():
    """Python notes that Ctrl-C was not handled, to end by that signal, and forgets it whenever a text is
    evaluated, as imports of ours do. A text that raises it makes Python note it again."""
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return


def _keep_originals():
    """What a script may replace before the agent is loaded, for `originals`."""
    import _thread
    import time

    for name in ("allocate_lock", "get_ident", "start_new_thread"):
        _kept[name] = getattr(_thread, name)
    for name in ("perf_counter", "perf_counter_ns", "sleep", "thread_time", "time", "time_ns"):
        _kept[name] = getattr(time, name)


def _put_up_guard():
    """A trial's: without it the user's files would be written to, so the process does not go on."""
    try:
        _load_package()
        from _stoker_inside import guard

        guard.install()
    except Exception as error:
        if os.environ["STOKER_GUARD"] != "watch":
            sys.stderr.write("stoker: the write guard failed: %r\n" % (error,))
            os._exit(97)


def _arm():
    if not os.environ.get("STOKER_FOLDER") or sys.version_info < (3, 9):
        return
    import atexit

    _keep_originals()
    if os.environ.get("STOKER_GUARD"):
        _put_up_guard()
    named = os.environ.get("STOKER_NAMED", "")
    names = set(_WATCHED)
    names.update(entry.split("=", 1)[-1].split(":", 1)[0] for entry in named.split(";") if entry)
    atexit.register(_at_exit)
    sys.meta_path.insert(0, _Doorbell(names))
    if "__main__" in names:
        _agent()


def _run_hidden():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    try:
        from _frozen_importlib_external import PathFinder  # loaded anyway; the public name costs 0.4 ms more
    except ImportError:
        from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_arm()
_run_hidden()
