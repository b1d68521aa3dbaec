"""The write guard inside a Python process. Loaded only where STOKER_GUARD is set.

    STOKER_GUARD=watch       only tell Stoker when a checkpoint is loaded (the kernel guards the files)
    STOKER_GUARD=redirect    what this process writes goes to a shadow folder, and is read back from there

STOKER_SHADOW names the shadow folder; STOKER_SHADOW_HIDDEN and STOKER_SHADOW_THROUGH are JSON lists of paths.
"""

import json
import os


def install():
    if os.environ.get("STOKER_GUARD") == "redirect" and os.environ.get("STOKER_SHADOW"):
        from . import calls, libraries
        from .shadow import Shadow

        shadow = Shadow(
            os.environ["STOKER_SHADOW"], _paths("STOKER_SHADOW_HIDDEN"), _paths("STOKER_SHADOW_THROUGH")
        )
        calls.install(shadow)
        libraries.install(shadow)
    from . import resumed

    resumed.install()


def _paths(name):
    return tuple(json.loads(os.environ.get(name) or "[]"))
