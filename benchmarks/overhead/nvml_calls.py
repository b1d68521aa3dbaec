"""What each call of NVML costs that a look at a GPU makes, so that the dear ones are known.

    PYTHONPATH=$PWD/src python benchmarks/overhead/nvml_calls.py [--times 20] [--out FILE]

The calls are noted while the product makes them, then made again one by one: after a pause of 0.2 s each
time, as the watcher does, and in a tight loop. Then whole looks in its rhythm, with GPM and without:
what `NvmlGpus.ask` costs, and what making and writing the reading adds. CPU is that of the process, user and
system. About 90 seconds; nothing needs to run on the card.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stoker.model.gpu import GpuReading, to_row
from stoker.outside.gpu.nvml import NO_GPM, open_nvml
from stoker.outside.gpu.readings import Reader
from stoker.outside.gpu.seam import Facts, Gpus
from stoker.outside.journal import Journal

PAUSE_S = 0.2
DEAR_EVERY = 5
TIGHT_S, TIGHT_MAX = 0.3, 2000
GPM_METRICS = "nvmlGpmMetricsGet"
SAMPLES = "nvmlDeviceGetSamples"
Costs = list[tuple[float, float]]
"""CPU and wall seconds of each time."""


def timed(call: Callable[[], object], costs: Costs) -> object:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    answer = call()
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    costs.append((cpu_s, wall_s))
    return answer


def figures(costs: Costs, prefix: str = "") -> dict[str, float | int | None]:
    if not costs:
        return {f"{prefix}times": 0}
    cpu_us, wall_us = ([1e6 * one[n] for one in costs] for n in (0, 1))
    return {
        f"{prefix}cpu_us": round(statistics.mean(cpu_us), 1),
        f"{prefix}wall_us": round(statistics.mean(wall_us), 1),
        f"{prefix}cpu_median_us": round(statistics.median(cpu_us), 1),
        f"{prefix}times": len(costs),
    }


@dataclass
class Noting:
    """The binding, with a note of each call and its last arguments."""

    nvml: Any
    looks: list[list[str]] = field(default_factory=lambda: [[]])
    arguments: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    def module(self) -> Any:
        names = [name for name in dir(self.nvml) if name.startswith(("nvml", "c_nvml"))]
        return SimpleNamespace(**{name: self._noted(name) for name in names})

    def _noted(self, name: str) -> Any:
        call = getattr(self.nvml, name)
        if not callable(call):
            return call

        def noted(*args: Any) -> Any:
            self.looks[-1].append(name)
            self.arguments[name] = args
            return call(*args)

        return noted


def calls_of_a_look(noting: Noting, gpus: Gpus, *, dear: bool) -> list[str]:
    """In their order; of a look that is not the first."""
    time.sleep(PAUSE_S)
    noting.looks.append([])
    gpus.ask(0, dear=dear)
    return noting.looks[-1]


def again(noting: Noting, name: str, stamp_us: int) -> Callable[[], object]:
    """The same question; the driver's samples always of its last second."""
    call, args = getattr(noting.nvml, name), noting.arguments[name]
    if name == SAMPLES:
        args = (*args[:2], stamp_us)
    return lambda: call(*args)


def alone(call: Callable[[], object], times: int) -> dict[str, Any]:
    paused: Costs = []
    tight: Costs = []
    try:
        for _ in range(times):
            time.sleep(PAUSE_S)
            timed(call, paused)
        end = time.perf_counter() + TIGHT_S
        while time.perf_counter() < end and len(tight) < TIGHT_MAX:
            timed(call, tight)
    except Exception as error:  # a refusal costs time, too, but is not the answer
        return {"refused": str(error), **figures(paused)}
    return {**figures(paused), **figures(tight, "tight_")}


def newest_us(noting: Noting) -> int:
    if SAMPLES not in noting.arguments:
        return 0
    try:
        _, rows = noting.nvml.nvmlDeviceGetSamples(*noting.arguments[SAMPLES][:2], 0)
    except noting.nvml.NVMLError:
        return 0
    return max(row.timeStamp for row in rows)


def single_calls(nvml: Any, times: int) -> list[dict[str, Any]]:
    os.environ.pop(NO_GPM, None)
    noting = Noting(nvml)
    gpus = open_nvml(noting.module())
    gpus.ask(0, dear=True)
    dear = calls_of_a_look(noting, gpus, dear=True)
    cheap = calls_of_a_look(noting, gpus, dear=False)
    noting.arguments.setdefault("nvmlDeviceGetUtilizationRates", (nvml.nvmlDeviceGetHandleByIndex(0),))
    names = dict.fromkeys(
        [*reversed(cheap), *dear, "nvmlDeviceGetUtilizationRates"]
    )  # metrics before samples
    results = []
    for name in names:
        call = again(noting, name, newest_us(noting) - 1_000_000)
        in_look = {"in_cheap_look": cheap.count(name), "in_dear_look": dear.count(name)}
        results.append(told({"call": name, **in_look, **alone(call, times)}))
        if name == GPM_METRICS:
            results.append(told({"call": f"{name}, one metric", **one_metric(noting, times)}))
        if name == SAMPLES:
            results.append(told({"call": f"{name}, all it keeps", **alone(again(noting, name, 0), times)}))
    gpus.close()
    return results


def one_metric(noting: Noting, times: int) -> dict[str, Any]:
    request = noting.arguments[GPM_METRICS][0]
    count, request.numMetrics = request.numMetrics, 1
    result = alone(lambda: noting.nvml.nvmlGpmMetricsGet(request), times)
    request.numMetrics = count
    return result


def whole_looks(nvml: Any, looks: int, *, no_gpm: bool) -> dict[str, Any]:
    """The product as it is, in the watcher's rhythm."""
    os.environ[NO_GPM] = "1" if no_gpm else ""
    gpus = open_nvml(nvml)
    asked: dict[bool, Costs] = {True: [], False: []}
    made: dict[bool, Costs] = {True: [], False: []}
    reader = Reader(0, pids_comparable=False)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder, "gpu.jsonl"))

        def write(answers: Any) -> None:
            reading = reader.reading(time.monotonic(), answers, ())
            if reading != GpuReading(reading.t, 0):  # as the watcher: one that tells nothing is not written
                journal.append(to_row(reading))

        gpus.ask(0, dear=True)
        for number in range(1, looks + 1):
            time.sleep(PAUSE_S)
            dear = number % DEAR_EVERY == 0
            answers = timed(lambda dear=dear: gpus.ask(0, dear=dear), asked[dear])
            timed(lambda answers=answers: write(answers), made[dear])
        journal.close()
    gpus.close()
    kinds = {"cheap look": False, "dear look": True}
    found = {name: {**figures(asked[k]), **figures(made[k], "reading_")} for name, k in kinds.items()}
    found["all"] = {"core_pct": core_pct([*asked.values(), *made.values()], looks)}
    return found


def core_pct(costs: Sequence[Costs], looks: int) -> float:
    """Of one core, at five looks a second."""
    return round(100 * sum(cpu_s for one in costs for cpu_s, _ in one) / (looks * PAUSE_S), 3)


def told(row: dict[str, Any]) -> dict[str, Any]:
    if "refused" in row:
        print(f"{row['call']:46}{row['refused']}", flush=True)
        return row
    places = f"{row.get('in_cheap_look', '-')!s:>3}{row.get('in_dear_look', '-')!s:>3}"
    paused = f"{row['cpu_us']:9.1f}{row['wall_us']:9.1f}"
    print(
        f"{row['call']:46}{places}{paused}{row['tight_cpu_us']:9.1f}{row['tight_wall_us']:9.1f}", flush=True
    )
    return row


def machine(gpus: Gpus) -> dict[str, object]:
    box = gpus.describe()
    first = box.devices[0]
    return {
        "schema": "stoker.benchmark.nvml-calls/1",
        "date": time.strftime("%Y-%m-%d"),
        "gpu": first.name if isinstance(first, Facts) else None,
        "driver": box.driver,
        "gpm": isinstance(first, Facts) and first.gpm is True,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nvidia-ml-py": version("nvidia-ml-py"),
        "load_1m_at_start": os.getloadavg()[0],
        "pause_s": PAUSE_S,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--looks", type=int, default=50)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    import pynvml

    gpus = open_nvml(pynvml)
    if not gpus.describe().devices:
        print(f"nvml_calls.py needs an NVIDIA GPU: {gpus.describe().reason}", file=sys.stderr)
        return 2
    report: dict[str, Any] = machine(gpus)
    print(f"{'':46}in a look  after a pause         tight loop")
    print(f"{'call':44}cheap dear      CPU   wall us      CPU  wall us")
    report["calls"] = single_calls(pynvml, args.times)
    for name, no_gpm in (("with GPM", False), ("without GPM", True)):
        report[name] = whole_looks(pynvml, args.looks, no_gpm=no_gpm)
        for look, found in report[name].items():
            print(f"{name}, {look}: {json.dumps(found)}", flush=True)
    gpus.close()
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
