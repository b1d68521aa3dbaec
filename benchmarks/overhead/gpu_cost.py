"""What watching costs on a GPU, beside what torch's own profiler costs: on and off in turns.

    PYTHONPATH=$PWD/src python benchmarks/overhead/gpu_cost.py --out FILE [--quick] [--subject stoker]

Two loops: off-policy RL with small networks (launch-bound, 2 to 4 ms a tick) and a convolutional network of
about 20 ms a tick; each reads a number back in every tick. For each loop and subject a process of its own.
Stoker by turns of 20 ms and the looking thread apart, as in `inside_cost.py`; the others, which cannot be
switched that fast, by pairs of blocks of 0.3 s in random order.

    stoker         its hooks and its looking thread; its watcher runs all the time (see `gpu_watcher.py`)
    profiler       torch.profiler, CPU and CUDA activities; taken apart after each block (TEARDOWN_CUPTI)
    profiler cuda  the same, CUDA activities alone
    traceml        a step inside trace_step(); what its init() patches stays in the off blocks. Installed, or
                   unpacked on PYTHONPATH: traceml-ai, msgspec, psutil, pyyaml

Stoker's 1000 pairs take about a minute and a half a loop, the others' 20 pairs one minute. What is not
installed is left out and said.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from inside_cost import ROOT, OnOff, alternated, interval, machine, taking_turns, timed
from turns import Turns, hooked

BLOCK_S = 0.3
LOOKED_S = 25.0
METHODS = ("item", "to")
TRACEML = ("traceml_ai", "traceml")
SUBJECTS = ("stoker", "profiler cuda", "profiler", "traceml")
RL_BATCH, PICTURE = 256, 64


def main() -> int:
    args = arguments()
    if args.one:
        args.out.write_text(json.dumps(measure(*args.one, args.pairs, args.device)))
        return 0
    need_a_gpu(args.device)
    results, left_out = [], {}
    for subject in args.subject or SUBJECTS:
        if subject == "traceml" and not traceml_name():
            left_out[subject] = "not installed"
            print(f"{subject:14} left out: not installed")
            continue
        pairs = args.pairs if subject == "stoker" else args.other_pairs
        results += [told(in_a_process(subject, loop, pairs, args.device)) for loop in args.loop or LOOPS]
    if args.out:
        facts = {"schema": "stoker.benchmark.gpu_cost/1", **machine(), **versions(), "device": args.device}
        report = {**facts, "block_s": BLOCK_S, "results": results, "left_out": left_out}
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1000, help="of Stoker's turns (default 1000)")
    parser.add_argument("--other-pairs", type=int, default=20, help="of the others' blocks (default 20)")
    parser.add_argument("--quick", action="store_true", help="100 and 4 pairs")
    parser.add_argument("--subject", choices=SUBJECTS, action="append", help="only this one")
    parser.add_argument("--loop", choices=LOOPS, action="append", help="only this one")
    parser.add_argument("--device", default="cuda", help="cpu tries the script out where there is no GPU")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("SUBJECT", "LOOP"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.pairs, args.other_pairs = 100, 4
    return args


def need_a_gpu(device: str) -> None:
    import torch

    if device != "cpu" and not torch.cuda.is_available():
        print(f"gpu_cost.py needs an NVIDIA GPU: torch {torch.__version__} finds none here", file=sys.stderr)
        sys.exit(2)


def versions() -> dict[str, object]:
    import torch

    nvidia = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(nvidia, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        driver = None
    return {"driver": driver, "cuda": torch.version.cuda}


def told(result: dict[str, Any]) -> dict[str, Any]:
    print(
        f"{result['subject']:14}{result['loop']:12}{result['tick_ms']:7.2f} ms a tick   wall "
        f"{interval(result['wall'])}   cpu {interval(result['cpu'])}   {result['pairs']} pairs",
        flush=True,
    )
    return result


def in_a_process(subject: str, loop: str, pairs: int, device: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.json")
        words = ["--one", subject, loop, "--pairs", str(pairs), "--device", device, "--out", str(found)]
        env = environment(subject, Path(folder))
        subprocess.run([sys.executable, __file__, *words], env=env, check=True)
        content: dict[str, Any] = json.loads(found.read_text())
    return content


def environment(subject: str, folder: Path) -> dict[str, str]:
    """Stoker's as `stoker run` would make it; the others' without any of it."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    base = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TEARDOWN_CUPTI": "1"}
    if subject != "stoker":
        return base
    from stoker.launch import injection

    base.pop("TEARDOWN_CUPTI")
    return injection.environment(base, folder, folder.name, [])


def measure(subject: str, loop_name: str, pairs: int, device: str) -> dict[str, Any]:
    loop = LOOPS[loop_name](device)
    if subject == "stoker":
        found = watched(loop, pairs)
    else:
        switch = make_switch(subject, loop)
        try:
            found = alternated(loop, switch, pairs, BLOCK_S)
        finally:
            switch.off()
    return {"subject": subject, "loop": loop_name, "env": getattr(loop, "env_name", None), **found}


def watched(loop: Any, pairs: int) -> dict[str, Any]:
    from stoker.launch import procfs
    from stoker.launch.watcher import start_watcher

    folder, root = Path(os.environ["STOKER_FOLDER"]), procfs.identify(os.getpid())
    assert root is not None
    watcher = start_watcher(folder, folder.name, root)
    try:
        return taking_turns(loop, pairs, LOOKED_S, functools.partial(OnGpu, loop))
    finally:
        watcher.stop()


# -- what is switched on and off -----------------------------------------------------------------------


def make_switch(subject: str, loop: Any) -> OnOff:
    return TraceMl(loop) if subject == "traceml" else Profiled(loop.torch, cpu=subject == "profiler")


class OnGpu(Turns):
    """Methods of Tensor are patched there, too. The class itself has to be left alone; the loop calls what it
    was given. The lead takes a sample so and so often by the clock: the time without hooks is not its own."""

    def __init__(self, loop: Any, agent: Any, objects: Any) -> None:
        super().__init__(agent, objects)
        tensor = loop.torch.Tensor
        self.loop = loop
        self.own = {name: getattr(tensor.__base__, name) for name in METHODS}
        self.hooked = {name: getattr(tensor, name) for name in METHODS}
        self.off_since: float | None = None

    def turn(self, on: bool) -> None:
        super().turn(on)
        now, clock = time.perf_counter(), self.agent.hook("lead").clock
        if not on:
            self.off_since = self.off_since or now
        elif self.off_since is not None and clock.since is not None:
            clock.since = (clock.since[0] + now - self.off_since, *clock.since[1:])
            self.off_since = None
        for name, function in (self.hooked if on else self.own).items():
            setattr(self.loop, name, function)


class Profiled:
    def __init__(self, torch: Any, *, cpu: bool) -> None:
        self.kind = torch.profiler.profile
        activity = torch.profiler.ProfilerActivity
        self.activities = [activity.CUDA] if torch.cuda.is_available() else []
        self.activities += [activity.CPU] if cpu or not self.activities else []
        self.profiler: Any = None

    def on(self) -> None:
        self.off()  # a new one for each block: its memory does not grow
        self.profiler = self.kind(activities=self.activities)
        self.profiler.start()

    def off(self) -> None:
        if self.profiler is not None:
            self.profiler.stop()
            self.profiler = None


class TraceMl:
    """0.5.0, with the process it sends its figures to; without that it measures nothing."""

    def __init__(self, loop: Any) -> None:
        self.logs = tempfile.mkdtemp()
        serve = "from traceml_ai.launcher.cli import main; main()"
        words = [sys.executable, "-c", serve, "serve", "--logs-dir", self.logs]
        with Path(self.logs, "serve.txt").open("w") as log:
            self.aggregator = subprocess.Popen(words, stdout=log, stderr=log)
        atexit.register(self.end)
        self.traceml: Any = importlib.import_module(str(traceml_name()))
        self.traceml.init(
            mode="auto", logs_dir=self.logs, on_missing_aggregator="raise", connect_timeout_sec=60
        )
        self.loop, self.bare = loop, loop.tick

    def end(self) -> None:
        self.aggregator.terminate()
        self.aggregator.wait()
        shutil.rmtree(self.logs, ignore_errors=True)

    def on(self) -> None:
        def tick() -> None:
            with self.traceml.trace_step(self.loop.model):
                self.bare()

        self.loop.tick = tick

    def off(self) -> None:
        self.loop.tick = self.bare


def traceml_name() -> str | None:
    return next((name for name in TRACEML if importlib.util.find_spec(name)), None)


# -- the loops -----------------------------------------------------------------------------------------


class SmallRl:
    """Acts, steps an environment, draws a batch, updates critic and actor: small kernels, many of them."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch, self.device, self.batch = torch, torch.device(device), RL_BATCH
        torch.set_num_threads(1)
        torch.manual_seed(0)
        nn, fused = torch.nn, device != "cpu"

        def mlp(inputs: int, outputs: int) -> Any:
            hidden = [nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
            return nn.Sequential(*hidden, nn.Linear(64, outputs)).to(device)

        self.actor, self.critic, self.target = mlp(3, 1), mlp(4, 1), mlp(4, 1)
        self.model = self.critic
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), fused=fused)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), fused=fused)
        self.replay = torch.randn(10_000, 8, device=device)
        self.env_name, self.env = make_env()
        self.seen = self.env.reset(seed=0)[0]
        self.item = torch.Tensor.item

    def objects(self) -> list[object]:
        return hooked(self)

    def tick(self) -> None:
        torch = self.torch
        with torch.no_grad():
            seen = torch.as_tensor(self.seen, dtype=torch.float32, device=self.device)
            action = self.item(self.actor(seen))
        self.seen, _, terminated, truncated, _ = self.env.step([action])
        if terminated or truncated:
            self.seen, _ = self.env.reset()
        rows = self.replay[torch.randint(len(self.replay), (self.batch,), device=self.device)]
        with torch.no_grad():
            goal = rows[:, 4:5] + 0.99 * self.target(rows[:, :4])
        self.descend(torch.nn.functional.mse_loss(self.critic(rows[:, :4]), goal), self.critic_optimizer)
        policy = -self.critic(torch.cat([rows[:, :3], self.actor(rows[:, :3])], 1)).mean()
        self.descend(policy, self.actor_optimizer)

    def descend(self, loss: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def make_env() -> tuple[str, Any]:
    """Gymnasium's pendulum, or one of our own, which no hook knows, where there is no Gymnasium."""
    if importlib.util.find_spec("gymnasium") is None:
        return "own pendulum", Pendulum()
    import gymnasium

    return "gymnasium Pendulum-v1", gymnasium.make("Pendulum-v1")


class Pendulum:
    def reset(self, seed: int = 0) -> tuple[list[float], dict[str, object]]:
        self.angle, self.speed = 3.0, 0.0
        return self.seen(), {}

    def step(self, action: list[float]) -> tuple[list[float], float, bool, bool, dict[str, object]]:
        push = max(-2.0, min(2.0, action[0]))
        self.speed = max(-8.0, min(8.0, self.speed + 0.05 * (15 * math.sin(self.angle) + 3 * push)))
        self.angle += 0.05 * self.speed
        return self.seen(), 0.0, False, False, {}

    def seen(self) -> list[float]:
        return [math.cos(self.angle), math.sin(self.angle), self.speed]


class Convolutional:
    """One model, one optimizer, a batch from a loader in the training thread; sized to about 20 ms a tick."""

    TICK_S = 0.020
    WIDTH = {"cuda": 128, "cpu": 8}  # noqa: RUF012

    def __init__(self, device: str, batch: int | None = None) -> None:
        import torch

        self.torch, self.device = torch, torch.device(device)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        nn, width = torch.nn, self.WIDTH[self.device.type]
        layers: list[Any] = [nn.Conv2d(3, width, 3, padding=1)]
        for _ in range(6):
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.item, self.to = torch.Tensor.item, torch.Tensor.to
        self.resize(batch or 16)
        if batch is None:
            self.calibrate()

    def resize(self, batch: int) -> None:
        data = self.torch.utils.data
        self.batch = batch
        rows = self.torch.randn(batch, 3, PICTURE, PICTURE)
        rows = rows.pin_memory() if self.device.type == "cuda" else rows
        self.loader = data.DataLoader([rows] * 1000, batch_size=None)
        self.batches = iter(self.loader)

    def calibrate(self) -> None:
        for _ in range(4):
            timed(self, 5)
            self.resize(max(1, min(4096, round(self.batch * self.TICK_S / (timed(self, 10)[0] / 10)))))

    def objects(self) -> list[object]:
        return [self.optimizer, self.loader, self.batches, *self.model.modules()]

    def tick(self) -> None:
        rows = next(self.batches, None)
        if rows is None:
            self.batches = iter(self.loader)
            rows = next(self.batches)
        loss = self.model(self.to(rows, self.device, non_blocking=True)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.item(loss)


LOOPS: dict[str, Any] = {"small RL": SmallRl, "conv 20 ms": Convolutional}


if __name__ == "__main__":
    sys.exit(main())
