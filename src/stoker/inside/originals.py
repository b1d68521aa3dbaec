"""Clocks, sleeping and threads as they were when Python began.

A script may put others in their place: a virtual clock, green threads, mocks. Asked by us, a clock of its own
would run on, and a thread would be none. `site/sitecustomize.py` keeps them for us from before the script.
"""

import _thread
import sys
import time

_KEPT = getattr(sys.modules[__package__], "kept", {})


def _original(module, name):
    return _KEPT.get(name) or getattr(module, name)


allocate_lock = _original(_thread, "allocate_lock")
get_ident = _original(_thread, "get_ident")
start_new_thread = _original(_thread, "start_new_thread")
perf_counter = _original(time, "perf_counter")
perf_counter_ns = _original(time, "perf_counter_ns")
sleep = _original(time, "sleep")
thread_time = _original(time, "thread_time")
wall_time = _original(time, "time")
wall_time_ns = _original(time, "time_ns")


def keep_to_ourselves():
    """Who replaces the clock everywhere (freezegun) looks for it among the names of all modules: ours say
    they have none."""
    for name, module in list(sys.modules.items()):
        if name.startswith(__package__ + "."):
            module.__dir__ = list
