"""What all hooks share: they patch, they fail alone and once, and they can be taken off again."""

import functools
import os
import sys
from contextlib import nullcontext

from ..dynamo import tracing_check
from ..interruption import pass_on
from ..originals import get_ident as _get_ident
from ..originals import perf_counter
from ..recorder import CLOSES_LOSS
from ..thinning import SPLIT
from ..wire import OPTIM, OTHER, THIN, TRAIN

_MISSING = object()


class Hook:
    """A subclass names the modules it waits for and patches them in `install(module)`.

    Most wrap what they patch with `wrap_phase`. Where more is to be done, `wrap` calls `begin` before and
    gives the token it returns to `end` after. Whatever goes wrong in them takes this hook out of use, is
    remembered, and goes no further.
    """

    name = ""
    modules = ()

    def __init__(self, agent):
        self.agent = agent
        self.recorder = agent.recorder
        self.error = None
        self.failed_at = None
        self.patches = []
        self.parts = []
        self.tripwire = None
        self.sound = []
        self.fault = _fault_for(self.name)

    def install_in(self, module):
        if self.error is not None:
            return
        try:
            self.arm_fault()
            self.install(module)
        except Exception as error:
            self.fail(error, "install")

    def arm_fault(self):
        if self.fault == "install":
            raise RuntimeError("fault asked for at install")
        if self.fault:
            number, self.fault = int(self.fault), None
            self.begin = _failing_at(number, self.begin)
            self.tripwire = _failing_at(number, _idle)

    def part(self, kind):
        """A second clock inside this hook, which fails by itself and is listed under its own name."""
        part = kind(self.agent)
        self.parts.append(part)
        part.arm_fault()
        return part

    def install(self, module):
        raise LookupError("a hook without install()")

    def begin(self, args):
        raise LookupError("a hook without begin()")

    def end(self, token, args, result):
        self.recorder.leave(token)

    def forked(self):
        """This is a new process now: what was noted about the old one is void."""

    def patch(self, owner, attribute, replacement):
        self.patches.append((owner, attribute, vars(owner).get(attribute, _MISSING), replacement))
        setattr(owner, attribute, replacement)

    def fail(self, error, when):
        """Out of use from here on: patches are taken back, wrappers still held by somebody do nothing. Unless
        it is the script's own exception, of a signal that came at this moment."""
        try:
            pass_on(error)
        except Exception:
            self.recorder.recover()
            raise
        if self.error is None:
            self.error, self.failed_at = repr(error)[:500], when
        self.begin, self.end, self.tripwire = _idle, _idle, _out_of_use
        self.sound.clear()
        self.take_off()
        self.recorder.recover()

    def take_off(self):
        for owner, attribute, original, replacement in reversed(self.patches):
            if vars(owner).get(attribute) is not replacement:
                continue  # somebody patched over us; pulling ours out would pull theirs out too
            if original is _MISSING:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)

    def put_on(self):
        for owner, attribute, original, replacement in self.patches:
            if vars(owner).get(attribute, _MISSING) is original:  # else somebody patched it meanwhile
                setattr(owner, attribute, replacement)

    def wrap_phase(self, original, phase, joins=None, ends=None):
        """`original` as a phase of the training thread; after it, outside the phase, `ends` is told its
        first argument."""
        closely = self.timed(original, phase, joins, ends)
        within = self._always
        if phase in SPLIT:
            within = self._passed_over if ends is None else self._passed_over_to_its_end
        return within(original, closely, phase, ends)

    def _always(self, original, closely, phase, _ends):
        recorder, tracing = self.recorder, tracing_check()

        @functools.wraps(original)
        def call(*args, **kwargs):
            if tracing() or recorder.phase == phase:  # one that calls itself does so nearly as deep as ever
                return original(*args, **kwargs)
            return closely(*args, **kwargs)

        return call

    def timed(self, original, phase, joins=None, ends=None):
        """The same, not to be called where torch.compile traces.

        This runs several times in a tick of a millisecond, between calls that empty the processor's caches:
        what `Recorder.enter` and `leave` do is written out here, since each call of Python code costs there
        three times what a tight loop shows.
        """
        hook, recorder = self, self.recorder
        joins = joins or recorder.adopt
        closes_loss, passed_over = CLOSES_LOSS[phase], THIN if phase in SPLIT else None
        envs = getattr(ends, "counts", None)  # those that are known

        def closely(*args, **kwargs):
            before, outer = recorder.phase, recorder.within
            if before == phase or outer == phase or _get_ident() != recorder.owner and not joins():
                return original(*args, **kwargs)
            try:
                if hook.tripwire is not None:
                    hook.tripwire()
                if before == passed_over:
                    recorder.within = phase
                else:
                    if recorder.collected:
                        recorder.read_collected()
                    gap, now = before, perf_counter()
                    if closes_loss and (recorder.after_model or before == OPTIM):
                        gap = recorder.loss_ends() if recorder.after_model else recorder.closure_begins()
                    recorder.after_model = recorder.modeled = False
                    recorder.totals[gap] += now - recorder.since
                    recorder.since = now
                    recorder.phase = phase
                recorder.counts[phase] += 1
            except Exception as error:
                hook.fail(error, "call")
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                try:
                    recorder.within = outer
                    if ends is not None or before != passed_over:
                        if recorder.collected:
                            recorder.read_collected()
                        now = perf_counter()
                        recorder.totals[recorder.phase] += now - recorder.since
                        recorder.since = now
                        recorder.phase = before
                    if ends is not None:
                        if recorder.deferring and recorder.stage is TRAIN:
                            waits = recorder.pending_infer_s
                            recorder.pending_infer_s = 0.0
                            recorder.eval_candidate = None
                            recorder.kept = kept = recorder.totals.copy()
                            recorder.kept_since = now
                            subject = args and args[0]
                            if id(subject) in (recorder.optimizers if envs is None else envs):
                                subject = id(subject)
                            else:
                                recorder.left, recorder.thinning.want_settle = 1, True  # told of at once
                            recorder.log.append((ends, subject, now, now, kept, waits, before, outer))
                            if not outer and (before == THIN or before == OTHER):
                                recorder.left -= 1
                                if recorder.left <= 0:
                                    recorder.thinning.turn()
                        else:
                            ends(args and args[0])
                except Exception as error:
                    hook.fail(error, "call")

        return closely

    def _passed_over(self, original, closely, phase, _ends):
        """In a stretch that is passed over (`thinning`) it is only made sure that what is called inside ends
        no stretch. As little code as can be, since every bit of it is fetched anew from far away."""
        recorder, tracing, sound = self.recorder, tracing_check(), self._while_sound()

        @functools.wraps(original)
        def call(*args, **kwargs):
            if tracing():
                return original(*args, **kwargs)
            if recorder.phase != THIN or recorder.within or _get_ident() != recorder.owner or not sound:
                return closely(*args, **kwargs)
            recorder.within = phase
            recorder.counts[phase] += 1
            try:
                return original(*args, **kwargs)
            finally:
                recorder.within = 0
                recorder.modeled = False

        return call

    def _passed_over_to_its_end(self, original, closely, phase, ends):
        """The same, and the end is noted for later. The sums are those of `since`, and are copied only if
        something else went on meanwhile."""
        hook, recorder, tracing, sound = self, self.recorder, tracing_check(), self._while_sound()

        @functools.wraps(original)
        def call(*args, **kwargs):
            if tracing():
                return original(*args, **kwargs)
            if recorder.phase != THIN or recorder.within or _get_ident() != recorder.owner or not sound:
                return closely(*args, **kwargs)
            recorder.within = phase
            recorder.counts[phase] += 1
            try:
                return original(*args, **kwargs)
            finally:
                recorder.within = 0
                recorder.modeled = False
                try:
                    if recorder.phase == THIN and recorder.deferring and recorder.stage is TRAIN:
                        if recorder.collected:
                            recorder.read_collected()
                        now, since = perf_counter(), recorder.since
                        if recorder.kept_since != since:
                            recorder.kept = recorder.totals.copy()
                            recorder.kept_since = since
                        recorder.eval_candidate = None
                        subject = args and args[0]
                        if id(subject) in recorder.optimizers:
                            subject = id(subject)
                        else:
                            recorder.left, recorder.thinning.want_settle = 1, True  # told of at once
                        recorder.log.append((ends, subject, now, since, recorder.kept, 0.0, THIN, 0))
                        recorder.left -= 1
                        if recorder.left <= 0:
                            recorder.totals[THIN] += now - since
                            recorder.since = now
                            recorder.thinning.turn()
                    else:
                        recorder.ended_closely(ends, args and args[0])
                except Exception as error:
                    hook.fail(error, "call")

        return call

    def _while_sound(self):
        """Something true as long as this hook is in use and is not to fail on purpose."""
        if self.tripwire is None and self.error is None and not self.sound:
            self.sound.append(self)
        return self.sound

    def wrap(self, original):
        """`original`, with `begin` and `end` around it when the training thread calls it."""
        hook, recorder, tracing = self, self.recorder, tracing_check()

        @functools.wraps(original)
        def call(*args, **kwargs):
            if tracing() or _get_ident() != recorder.owner and not recorder.adopt():
                return original(*args, **kwargs)
            try:
                token = hook.begin(args)
            except Exception as error:
                hook.fail(error, "call")
                return original(*args, **kwargs)
            result = None
            try:
                result = original(*args, **kwargs)
                return result
            finally:
                try:
                    hook.end(token, args, result)
                except Exception as error:
                    hook.fail(error, "call")

        return call


def without_overrides():
    """To ask a tensor for its size unheard: no `__torch_function__`, of a subclass or a mode, is called."""
    switch = getattr(getattr(sys.modules.get("torch"), "_C", None), "DisableTorchFunction", nullcontext)
    return switch()


def original_of(function):
    """What a wrapper of ours was put around; None of any other function. Told by its code: a table of them
    would keep the classes alive whose methods they are."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_filename.startswith(_OWN_FOLDER):
        return None
    return getattr(function, "__wrapped__", None)


_OWN_FOLDER = os.path.dirname(original_of.__code__.co_filename) + os.sep


def _idle(*_):
    return None


def _out_of_use():
    raise RuntimeError("this hook has failed before")


def _fault_for(name):
    """`STOKER_FAULT=hook:install|1|1000` makes one hook fail on purpose, for the tests."""
    wanted, _, when = os.environ.get("STOKER_FAULT", "").partition(":")
    return when if wanted == name else None


def _failing_at(number, call):
    calls = 0

    def failing(*args):
        nonlocal calls
        calls += 1
        if calls >= number:
            raise RuntimeError("fault asked for at call %d" % number)
        return call(*args)

    return failing
