"""Looks at the GPUs beside a run and writes `outside/gpu.jsonl`; the watcher's loop says when.

Cheap questions at every look, dear ones once a second; a look that tells nothing is not written. A device
nobody uses is looked at once a second, too: seven idle neighbours cost little. What the looking itself costs
is measured and written; where it is nearly a hundredth of a core, the looks come less often.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from stoker.model.gpu import SCHEMA, GpuCost, GpuEnd, GpuHeader, GpuMissing, GpuReading, to_row
from stoker.outside.gpu.nvml import find_gpus
from stoker.outside.gpu.readings import Reader, device_row
from stoker.outside.gpu.seam import Box, Facts, Gpus, Refused
from stoker.outside.journal import Journal

INTERVAL_S = 0.2
SHARE_MAX = 0.008
"""Of a core. One look at an H200 with GPM takes 1.7 to 2.5 ms of CPU (driver 580, 2026-11)."""
DEAR_S = 1.0
IDLE_PCT = 0.5
"""GPM tells 0.006 % of a card that does nothing (H200, driver 580, 2026-11)."""
POLLS = 3
"""Values of `utilization.gpu` per look, where it alone tells the time axis."""
STRETCH_AT_BYTES = 8 * 2**20
"""Each time the file has grown by so much, the interval doubles."""
LATELY = 20
"""Looks whose mean tells how often they may come; not the very first, which takes longest."""
RARELY_S = 2.0
"""However much a look costs, and however many cards there are."""
FIRST_COST_AFTER = 10
COST_S = 60.0
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of include/linux/proc_ns.h."""


def in_first_pid_namespace() -> bool:
    """There NVML's process IDs are those of /proc. In a container they are the host's, or none at all."""
    try:
        return os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE
    except OSError:
        return False


@dataclass
class Cost:
    looks: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    written_s: float | None = None

    def row(self, t: float) -> GpuCost:
        watcher_s = time.process_time()
        return GpuCost(
            round(t, 4), self.looks, round(self.cpu_s, 6), round(self.wall_s, 6), round(watcher_s, 4)
        )


class GpuWatch:
    def __init__(
        self,
        gpus: Gpus,
        journal: Journal,
        run_id: str,
        *,
        interval_s: float = INTERVAL_S,
        pids_comparable: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._gpus, self._journal, self._clock, self._cpu_clock = gpus, journal, clock, cpu_clock
        self._interval_s = interval_s
        self._cost, self._look_cpu_s, self._polled_cpu_s = Cost(), 0.0, 0.0
        self._told: set[tuple[int | None, str]] = set()
        self._dear_s: dict[int, float] = {}
        self._quiet: set[int] = set()
        self._look_s = self._poll_s = clock()
        self._polling = True
        """Until the first poll shows that nobody needs it."""
        comparable = in_first_pid_namespace() if pids_comparable is None else pids_comparable
        box = gpus.describe()
        self._readers = {
            number: Reader(number, comparable)
            for number, facts in enumerate(box.devices)
            if isinstance(facts, Facts)
        }
        self._introduce(box, run_id, comparable)

    @property
    def interval_s(self) -> float:
        stretched = self._interval_s * 2 ** (self._journal.written_bytes // STRETCH_AT_BYTES)
        return float(max(stretched, min(RARELY_S, self._look_cpu_s / SHARE_MAX)))

    @property
    def sees_gpus(self) -> bool:
        return bool(self._readers)

    @property
    def due_s(self) -> float:
        """When it wants to be called next."""
        return min(self._look_s, self._poll_s)

    def step(self, own: Collection[int]) -> None:
        """Look, or ask a driver whose value covers less than the time between two looks once more."""
        if self._clock() >= self._look_s:
            self.look(own)
            self._look_s = max(self._look_s + self.interval_s, self._clock())  # after a suspend, no rush
        elif self._clock() >= self._poll_s:
            self._polling = self.poll()
        else:
            return
        self._poll_s = self._clock() + self.interval_s / (POLLS - 0.5) if self._polling else float("inf")

    def look(self, own: Collection[int]) -> list[GpuReading]:
        """One look at each device; `own` are the processes of the run."""
        cpu_s, wall_s = self._cpu_clock(), time.perf_counter()
        readings = [
            reading for number in self._readers if (reading := self._look_at(number, own)) is not None
        ]
        spent_s = self._cpu_clock() - cpu_s
        self._cost.looks += 1
        self._cost.cpu_s += spent_s
        if self._cost.looks > 1:
            lately_s, self._polled_cpu_s = spent_s + self._polled_cpu_s, 0.0
            self._look_cpu_s += (lately_s - self._look_cpu_s) / min(self._cost.looks - 1, LATELY)
        self._cost.wall_s += time.perf_counter() - wall_s
        self._tell_cost()
        return readings

    def poll(self) -> bool:
        """Between two looks; False where no device needs it."""
        cpu_s, wall_s = self._cpu_clock(), time.perf_counter()
        needed = [self._gpus.poll(number) for number in self._readers if number not in self._quiet]
        spent_s = self._cpu_clock() - cpu_s
        self._cost.cpu_s += spent_s
        self._polled_cpu_s += spent_s
        self._cost.wall_s += time.perf_counter() - wall_s
        return any(needed)

    def finish(self, reason: str) -> None:
        t = self._clock()
        if self.sees_gpus:
            self._journal.append(to_row(self._cost.row(t)))
        self._journal.append(to_row(GpuEnd(round(t, 4), reason)))
        self._journal.close()
        self._gpus.close()

    def _introduce(self, box: Box, run_id: str, comparable: bool) -> None:
        header = GpuHeader(
            schema=SCHEMA,
            run_id=run_id,
            interval_s=self._interval_s,
            monotonic_s=self._clock(),
            wall_s=time.time(),
            source=box.source,
            reason=box.reason or None,
            driver=box.driver,
            no_gpm=box.no_gpm,
            pids_comparable=comparable,
        )
        self._journal.append(to_row(header))
        self._tell_missing(None, dict(box.extra))
        for number, facts in enumerate(box.devices):
            if isinstance(facts, Refused):
                self._tell_missing(number, {"device": facts.reason})
                continue
            missing: dict[str, str] = {}
            self._journal.append(to_row(device_row(number, facts, missing)))
            self._tell_missing(number, missing)

    def _look_at(self, number: int, own: Collection[int]) -> GpuReading | None:
        t = self._clock()
        dear = t - self._dear_s.get(number, float("-inf")) >= DEAR_S - self._interval_s / 2
        if number in self._quiet and not dear:
            return None
        if dear:
            self._dear_s[number] = t
        answers = self._gpus.ask(number, dear=dear)
        reader = self._readers[number]
        reading = reader.reading(self._clock(), answers, own)
        if dear:
            self._note_quiet(reading)
        self._tell_missing(number, reader.missing)
        if reading == GpuReading(reading.t, number):
            return None
        self._journal.append(to_row(reading))
        return reading

    def _note_quiet(self, reading: GpuReading) -> None:
        """Nobody there and nothing done. In a container processes may be hidden, work is not."""
        shares = [share for share in (reading.busy_pct, reading.nvml_util_pct) if share is not None]
        idle = not reading.processes and shares and max(shares) < IDLE_PCT
        (self._quiet.add if idle else self._quiet.discard)(reading.gpu)

    def _tell_missing(self, number: int | None, missing: dict[str, str]) -> None:
        for name, reason in missing.items():
            if (number, name) not in self._told:
                self._told.add((number, name))
                self._journal.append(to_row(GpuMissing(name, reason, number)))

    def _tell_cost(self) -> None:
        t, cost = self._clock(), self._cost
        due = cost.looks == FIRST_COST_AFTER if cost.written_s is None else t - cost.written_s >= COST_S
        if due:
            cost.written_s = t
            self._journal.append(to_row(cost.row(t)))


def start_gpu_watch(folder: Path, run_id: str, interval_s: float) -> GpuWatch | None:
    """None on a machine without a GPU: its file says so, and that was all."""
    watch = GpuWatch(find_gpus(), Journal(folder / "outside" / "gpu.jsonl"), run_id, interval_s=interval_s)
    if watch.sees_gpus:
        return watch
    watch.finish("there is no GPU to look at")
    return None
