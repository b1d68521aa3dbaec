"""A daemon thread: looks at the training thread's stack now and then, and writes once a second.

Its own cost is measured on its own CPU clock and held under a share of the wall time: if looking takes
longer than that, it looks less often.

A thread that wakes up gets the interpreter lock when the other lets go of it: at the next torch operation, or
after the switch interval (5 ms). Pure Python shorter than that would never be seen. So a look has two steps:
after the long sleep comes a short one of random length with a short switch interval, which is put back at
once. The moment of looking is then random to within 0.1 ms.
"""

import random
import sys
import threading
import time
from time import perf_counter

from . import wire

SAMPLE_S = 0.05
MANY = 600
"""So many looks tell the lines to a point or two: from then on one looks less often."""
SWITCH_S = 0.0001
NAP_S = 0.002
NAP_MAX_S = 0.010
SHARE_MAX = 0.003
FLUSH_S = 1.0
LINES_S = 5.0
SETTLE_S = 30.0


class Pulse:
    def __init__(self, recorder, places, flush):
        self.recorder = recorder
        self.places = places
        self.flush = flush
        self.recent = []
        self.lines = {}
        self.samples = 0
        self.cost_s = 0.0
        self.interval_s = SAMPLE_S
        self.stopping = False
        self.paused = False
        self.lock = threading.Lock()
        self.error = None
        self._usual_switch_s = self._brief_switch_s = None
        self._random = random.Random(0)  # its own generator: the script's random numbers are the script's

    def start(self):
        thread = threading.Thread(target=self._run, name="stoker-pulse", daemon=True)
        thread.start()

    def _run(self):
        try:
            self._beat()
        except Exception as error:  # watching ends, the training does not
            self.error = repr(error)

    def _beat(self):
        last_flush = perf_counter()
        while not self.stopping:
            # Exponential gaps have no period that could fall in step with the loop.
            time.sleep(min(1.0, self.interval_s * (0.5 + self._random.expovariate(2.0))))
            if self.paused:  # benchmarks switch watching on and off
                continue
            self._nap()
            if self.stopping:
                return
            started = time.thread_time()
            now = perf_counter()
            self.look()
            if now - last_flush >= FLUSH_S:
                last_flush = now
                with self.lock:
                    if self.stopping:
                        return
                    self.flush()
            self._limit(time.thread_time() - started)

    def _nap(self):
        self._usual_switch_s = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH_S, self._usual_switch_s))
        self._brief_switch_s = sys.getswitchinterval()
        try:
            time.sleep(min(NAP_MAX_S, self._random.expovariate(1 / NAP_S)))
        finally:
            self.wake()

    def wake(self):
        """End the nap, here or in the child of a fork, where nobody else would."""
        usual, self._usual_switch_s = self._usual_switch_s, None
        if usual is not None and sys.getswitchinterval() == self._brief_switch_s:
            sys.setswitchinterval(usual)  # else the script has chosen another meanwhile

    def look(self):
        recorder = self.recorder
        owner, phase = recorder.owner, recorder.phase
        if phase == wire.OTHER and recorder.after_model:
            phase = wire.LOSS
        if owner is None:
            return
        frame = sys._current_frames().get(owner)
        if frame is None:
            return
        self.recent.append((perf_counter(), phase, self.places.of(frame)))
        self.samples += 1

    def settle(self, last=False):
        """That an evaluation has begun is known only later: a look finds its stage once a tick is over."""
        recorder = self.recorder
        now = perf_counter()
        known = now if last else max(recorder.tick_row[1] if recorder.tick_row else 0.0, now - SETTLE_S)
        recent, self.recent = self.recent, []
        for when, phase, place in recent:
            if when > known:
                self.recent.append((when, phase, place))
                continue
            key = (phase, recorder.stage_at(when), place)
            self.lines[key] = self.lines.get(key, 0) + 1

    def _limit(self, cost_s):
        self.cost_s += cost_s
        usual = SAMPLE_S * (1 if self.samples < MANY else 2 if self.samples < 5 * MANY else 4)
        wanted = cost_s / SHARE_MAX if cost_s > 0.0005 else usual
        self.interval_s = max(usual, 0.9 * self.interval_s + 0.1 * min(wanted, 1.0))
