"""`h2d` and `sync`: copies to the device, and reads that wait for it, with the line that asked.

Nothing is patched until the script itself has started CUDA: without a device no read blocks. The patches
sit on Tensor methods, which torch.compile must not trace: they come off while it compiles.
"""

import functools
import sys
from itertools import takewhile

from .. import wire
from ..originals import get_ident as _get_ident
from ..originals import perf_counter
from ..places import USER
from ..wire import H2D, SYNC
from .base import Hook

_getframe = sys._getframe
_READS = ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__", "nonzero")
_MOVES = ("to", "cuda")
NOTED_MAX = 200_000
"""Between two writings; more are not told apart by line."""


class TransferHook(Hook):
    name = "transfer"
    modules = ("torch.cuda",)

    def install(self, module):
        if module.is_initialized():
            self.install_on_tensors()
            return
        original = module._lazy_init
        hook = self

        @functools.wraps(original)
        def _lazy_init():
            result = original()
            if not hook.patched and hook.error is None:
                hook.patched = True
                try:
                    hook.install_on_tensors()
                except Exception as error:
                    hook.fail(error, "install")
            return result

        module._lazy_init = _lazy_init

    def __init__(self, agent):
        super().__init__(agent)
        self.patched = False
        self.noted = []
        self.spots = {}

    def install_on_tensors(self):
        torch = sys.modules["torch"]
        tensor = torch.Tensor
        for name in _READS:
            self._put_on(tensor, name, None, SYNC)
        for name in _MOVES:
            self._put_on(tensor, name, _is_move, H2D)
        self._put_on(tensor, "copy_", _is_copy, H2D)
        for owner in (torch.cuda, torch.cuda.Stream, torch.cuda.Event):
            self._put_on(owner, "synchronize", _is_wait, SYNC)

    def _put_on(self, owner, name, judge, phase):
        """What it was is known afterwards; a look that finds the thread inside goes by its code, of which
        each kind has one of its own."""
        call = self._timed(getattr(owner, name), judge)
        call.__code__ = self.agent.waiting_code(call.__code__, phase)
        self.patch(owner, name, call)

    def _timed(self, original, judge):
        """`judge` says what it was; without one, it is a read. Once in a tick of a millisecond, right after
        the GPU ran dry: as few calls of Python as can be."""
        recorder, hook = self.recorder, self

        @functools.wraps(original)
        def call(*args, **kwargs):
            if _get_ident() != recorder.owner:
                return original(*args, **kwargs)
            start = perf_counter()
            result = original(*args, **kwargs)
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                if judge is not None:
                    phase = judge(args, result)
                else:
                    phase = SYNC if getattr(args[0], "is_cuda", False) else None
                if phase is not None:
                    seconds, frame, noted = recorder.attribute(phase, start), _getframe(1), hook.noted
                    known = hook.spots.get((id(frame.f_code), frame.f_lasti))
                    place = known[0] if known is not None else hook.place(frame)
                    if len(noted) < NOTED_MAX:
                        noted.append((recorder.since, phase, place, seconds))
            except Exception as error:
                hook.fail(error, "call")
            return result

        return call

    def settle(self, last):
        """Each in the stage it was in, which is known once a tick is over; called by the pulse."""
        noted, syncs, recorder = self.noted, self.agent.syncs, self.recorder
        known = float("inf") if last else recorder.settled_until()
        taken = list(takewhile(lambda one: one[0] <= known, noted[:]))
        del noted[: len(taken)]
        for when, phase, place, seconds in taken:
            key = (phase, recorder.stage_at(when), place)
            count, total = syncs.get(key, (0, 0.0))
            syncs[key] = (count + 1, total + seconds)

    def forked(self):
        self.noted, self.spots = [], {}

    def place(self, frame):
        """Where the user's own code asks, this very spot tells the place; the code is kept, and so its id."""
        place, code = self.agent.places.of(frame), frame.f_code
        if self.agent.places.kind(code) == USER and len(self.spots) < wire.PLACES_MAX:
            self.spots[id(code), frame.f_lasti] = (place, code)
        return place


def _on_device(value):
    return getattr(value, "is_cuda", False)


def _is_move(args, result):
    if _on_device(result):
        return None if _on_device(args[0]) else H2D
    return SYNC if _on_device(args[0]) else None


def _is_copy(args, result):
    source = args[1] if len(args) > 1 else None
    if _on_device(args[0]):
        return None if _on_device(source) else H2D
    return SYNC if _on_device(source) else None


def _is_wait(args, result):
    return SYNC
