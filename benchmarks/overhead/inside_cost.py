"""What watching costs: alternating blocks with the hooks on and off, in one process, in random order.

    OMP_NUM_THREADS=1 python benchmarks/overhead/inside_cost.py [--pairs 2000] [--loop NAME] [--out FILE]

Loops of one CPU thread, of about 2 and 20 ms a tick: an off-policy one (an env step, five model calls, two
backward passes, two optimizer steps; that of 20 ms from pictures), and a supervised one (a batch, one of
each). The allocator keeps its memory, on and off alike: asking the system for it anew scatters the ticks.

On a CPU the cost has two parts, measured apart and added (`turns.py` says why and how):

- the hooks: pairs of neighbouring turns of about 20 ms, on and off, in random order; the pseudo-median
  (Hodges and Lehmann) of the log ratios with its 95 % interval, on the wall clock and on the process's CPU
  clock. Beside it their mean (t), which a noisy neighbour widens.
- the looking thread: mean of what the ticks with a look in them take longer than those around, measured at
  its highest rate (that of the first 8 s) and counted at the mean rate of the first minute, and beside it at
  that of a training's third minute and all later ones. It is not on the CPU clock; its own CPU time stands
  beside.

On a GPU, where Tensor methods are patched too, blocks of 0.75 s with all on or off, and the mean of the log
ratios. Beside both the hooks' own account: calls per tick times the cost of a call in a tight loop; in a
training, with the processor's caches cold, it is about three times that.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "accuracy"))

import turns  # noqa: E402
from card import command, measured_code  # noqa: E402
from cpu_loops import OffPolicy, Pixels, Supervised  # noqa: E402

SITE = ROOT / "src" / "stoker" / "inside" / "site"
KEEPS_MEMORY = {f"MALLOC_{name}_": str(1 << 30) for name in ("MMAP_THRESHOLD", "TRIM_THRESHOLD")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--looked-s", type=float, default=60.0, help="seconds for the looking thread's part")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--loop", choices=LOOPS, action="append", help="only this one")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if "STOKER_FOLDER" not in os.environ:
        again_inside()
    results = {name: measure(name, args.pairs, args.device, args.looked_s) for name in args.loop or LOOPS}
    report = {"schema": "stoker.benchmark.overhead/1", **machine(), "device": args.device, "loops": results}
    text = json.dumps(report, indent=1)
    if args.out:
        args.out.write_text(text + "\n")
    for name, result in results.items():
        print(
            f"{name:17} {result['tick_ms']:7.2f} ms a tick   wall {interval(result['wall'])}   "
            f"later {interval(result.get('wall_later', result['wall']))}   "
            f"cpu {interval(result['cpu'])}   own account {result['account_pct']:.2f} %"
        )


def again_inside() -> None:
    """This same script, as `stoker run` would start it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")]))
        env = {
            **os.environ,
            "STOKER_FOLDER": folder,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            **KEEPS_MEMORY,
        }
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode)


def machine() -> dict[str, object]:
    import torch

    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": command(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "code": measured_code(),
        "cpu": next(
            (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
            "?",
        ),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else None,
        "load_1m": os.getloadavg()[0],
    }


class Loop(Protocol):
    batch: int
    torch: Any
    device: Any

    def tick(self) -> None: ...


class OnOff(Protocol):
    def on(self) -> None: ...
    def off(self) -> None: ...


LOOPS = {
    "RL 2 ms": (OffPolicy, 0.002),
    "RL 20 ms": (Pixels, 0.020),
    "supervised 2 ms": (Supervised, 0.002),
    "supervised 20 ms": (Supervised, 0.020),
}
TURN_S = 0.02
BLOCK_S = 0.75
"""Long: patching a class makes the interpreter forget what it had learnt about it, for some fifty ticks."""
SETTLE_TICKS = 60
CALIBRATED_S = 1.0
WARM_UP_S = 5.0
WIDTHS = {OffPolicy: 64, Pixels: 32}
WIDE = {"cpu": 256, "cuda": 4096}


def calibrated(name: str, device: str) -> OffPolicy | Supervised:
    """The batch that makes a tick about as long as asked for; a launch-bound one cannot be made shorter."""
    kind, tick_s = LOOPS[name]
    width, batch = WIDTHS.get(kind, WIDE[device] if tick_s > 0.01 else 64), 64
    for _ in range(6):
        loop = kind(width, batch, device)
        timed(loop, round(CALIBRATED_S / tick_s))
        found_s = statistics.median(timed(loop, 4)[0] / 4 for _ in range(round(CALIBRATED_S / tick_s / 4)))
        if abs(found_s / tick_s - 1) < 0.05:
            return loop
        batch = max(16, min(65_536, round(batch * tick_s / found_s)))
    return kind(width, batch, device)


def measure(name: str, pairs: int, device: str, looked_s: float) -> dict[str, object]:
    loop = calibrated(name, device)
    found = taking_turns(loop, pairs, looked_s) if device == "cpu" else alternated(loop, Switch(), pairs)
    return {**found, "account_pct": 100 * account_s(loop) / (found["tick_ms"] / 1000)}


def taking_turns(
    loop: Any, pairs: int, looked_s: float, kind: Callable[..., turns.Turns] = turns.Turns
) -> dict[str, Any]:
    """`kind` makes the turns from the agent and what lists the loop's objects."""
    agent = sys.modules["_stoker_inside.agent"].agent
    warm_up(loop)
    tick_s = timed(loop, 50)[0] / 50
    ticks = max(2, round(TURN_S / tick_s))
    agent.pulse.paused = True
    ratios = turns.in_turns(loop.tick, kind(agent, loop.objects), pairs, ticks, max(1, ticks // 4))
    agent.pulse.paused = False
    agent.pulse.samples = -1_000_000  # the rate stays the highest
    start, own_s = time.perf_counter(), agent.pulse.cost_s
    added_s, mean_s, per_tick = turns.looked_at(loop.tick, agent.pulse, looked_s)
    own_s = (agent.pulse.cost_s - own_s) / (time.perf_counter() - start)
    wall, cpu = ([pair[clock] for pair in ratios] for clock in (0, 1))
    hooks, looks = turns.pseudo_median(wall), turns.mean_of(added_s, mean_s, per_tick)
    pulse, measured = sys.modules["_stoker_inside.pulse"], 60 * per_tick / mean_s
    rarer, rarest = turns.looks_in_a_minute(pulse) / measured, turns.looks_later(pulse) / measured
    usual, later = ({bound: part * value for bound, value in looks.items()} for part in (rarer, rarest))
    return {
        "pairs": pairs,
        "ticks_per_block": ticks,
        "batch": loop.batch,
        "tick_ms": 1000 * mean_s,
        "closely_frac": closely_frac(),
        "wall": turns.added(hooks, usual),
        "wall_later": turns.added(hooks, later),
        "cpu": turns.pseudo_median(cpu),
        "hooks": hooks,
        "hooks_mean": estimate(wall),
        "hooks_cpu_mean": estimate(cpu),
        "looks": {**usual, "looks": len(added_s), "own_cpu_pct": 100 * own_s * rarer},
        "looks_at_first": looks,
        "wall_log_ratios": [round(value, 4) for value in wall],
        "cpu_log_ratios": [round(value, 4) for value in cpu],
    }


def alternated(loop: Loop, switch: OnOff, pairs: int, block_s: float = BLOCK_S) -> dict[str, Any]:
    """Blocks with it on and off, in pairs of random order; it is left on."""
    switch.on()
    warm_up(loop)
    ticks = max(3, round(block_s / (timed(loop, 20)[0] / 20)))
    wall: list[float] = []
    cpu: list[float] = []
    tick_s: list[float] = []
    chance = random.Random(1)
    for _ in range(pairs):
        first_on = chance.random() < 0.5
        seen = {}
        for on in (first_on, not first_on):
            (switch.on if on else switch.off)()
            timed(loop, min(ticks // 3, SETTLE_TICKS))
            seen[on] = timed(loop, ticks)
        wall.append(math.log(seen[True][0] / seen[False][0]))
        cpu.append(math.log(seen[True][1] / seen[False][1]))
        tick_s.append(seen[False][0] / ticks)
    switch.on()
    return {
        "pairs": pairs,
        "ticks_per_block": ticks,
        "batch": loop.batch,
        "tick_ms": 1000 * statistics.median(tick_s),
        "closely_frac": closely_frac(),
        "wall": estimate(wall),
        "cpu": estimate(cpu),
        "wall_log_ratios": [round(value, 5) for value in wall],
        "cpu_log_ratios": [round(value, 5) for value in cpu],
    }


def closely_frac() -> float | None:
    agent = sys.modules.get("_stoker_inside.agent")
    return None if agent is None else agent.agent.recorder.thinning.closely_frac


def warm_up(loop: Loop) -> None:
    """As long as it takes until it is known how many stretches can be looked at closely; that is then kept:
    the blocks without hooks would be taken for time in which little was called."""
    end = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < end:
        loop.tick()
    agent = sys.modules.get("_stoker_inside.agent")
    if agent is not None:
        thinning = type(agent.agent.recorder.thinning)
        thinning.review = lambda self: setattr(self, "want_settle", self.active)


def timed(loop: Loop, ticks: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(ticks):
        loop.tick()
    if loop.device.type == "cuda":
        loop.torch.cuda.synchronize()
    return time.perf_counter() - wall, time.process_time() - cpu


class Switch:
    """All hooks and the pulse on or off; off is torch as it came."""

    def __init__(self) -> None:
        import torch

        self.agent = sys.modules["_stoker_inside.agent"].agent
        self.interval_s = self.agent.pulse.interval_s
        self.adam = torch.optim.Adam
        self.step = self.adam.step

    def on(self) -> None:
        for hook in self.agent.hooks:
            hook.put_on()
        self.adam.step = self.step
        self.agent.pulse.paused = False

    def off(self) -> None:
        self.agent.pulse.paused = True
        for hook in self.agent.hooks:
            hook.take_off()
        self.adam.step = self.step.__wrapped__


def estimate(ratios: list[float]) -> dict[str, float]:
    mean = statistics.fmean(ratios)
    half = t_975(len(ratios) - 1) * statistics.stdev(ratios) / math.sqrt(len(ratios))
    return {
        "cost_pct": 100 * (math.exp(mean) - 1),
        "low_pct": 100 * (math.exp(mean - half) - 1),
        "high_pct": 100 * (math.exp(mean + half) - 1),
    }


def t_975(freedom: int) -> float:
    """Student's t; good to 0.01 from ten degrees of freedom on."""
    return 1.96 + 2.37 / freedom + 2.82 / freedom**2


def interval(result: dict[str, float]) -> str:
    return f"{result['cost_pct']:+.2f} % [{result['low_pct']:+.2f}, {result['high_pct']:+.2f}]"


def account_s(loop: OffPolicy | Supervised, ticks: int = 200) -> float:
    """Seconds per tick by the hooks' own account: how often each is called, times what a call costs."""
    agent = sys.modules["_stoker_inside.agent"].agent
    recorder = agent.recorder
    before, pulse_before, start = list(recorder.counts), agent.pulse.cost_s, time.perf_counter()
    for _ in range(ticks):
        loop.tick()
    calls = sum(recorder.counts) - sum(before)
    pulse_s = (agent.pulse.cost_s - pulse_before) / (time.perf_counter() - start)
    layers = 5 * 5 if isinstance(loop, OffPolicy) else 9  # below the models called in a tick
    per_tick = calls / ticks * call_cost_s(agent) + layers * layer_cost_s(loop)
    return per_tick + pulse_s * (time.perf_counter() - start) / ticks


def call_cost_s(agent: object, times: int = 20_000) -> float:
    """One wrapped call more than the bare one."""
    hook = next(hook for hook in agent.hooks if hook.name == "clip")  # type: ignore[attr-defined]

    def nothing() -> None:
        return None

    return best(hook.wrap_phase(nothing, 8), times) - best(nothing, times)


def layer_cost_s(loop: OffPolicy | Supervised, times: int = 20_000) -> float:
    """A layer's call inside a model, with our __call__ and with torch's."""
    module = loop.torch.nn.Identity()
    agent = sys.modules["_stoker_inside.agent"].agent
    agent.recorder.phase = 5
    ours, torchs = type(module).__call__, type(module)._wrapped_call_impl
    cost = best(lambda: ours(module, 1), times) - best(lambda: torchs(module, 1), times)
    agent.recorder.phase = 0
    return max(0.0, cost)


def best(call: object, times: int) -> float:
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            call()  # type: ignore[operator]
        spent.append((time.perf_counter() - start) / times)
    return min(spent)


if __name__ == "__main__":
    main()
