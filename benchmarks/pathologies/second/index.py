"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

The words are this list's own. They were chosen before anybody looked at what the tool calls its causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MARKER = "# planted"
"""Stands at the end of the line a perfect diagnosis points to."""


class Fault(StrEnum):
    FEW_WORKERS = "too few loader workers for a heavy decode"
    MAIN_PROCESS = "all loading in the main process"
    SLOW_DISK = "a slow disk under a loader"
    SLOW_COLLATE = "a slow collate function"
    SHORT_EPOCHS = "loader workers restarted at every short epoch"
    PAGEABLE_COPY = "blocking copies of big batches from pageable memory"
    SYNC_EACH_TICK = "a sync every tick, with host work after it"
    LAUNCH_BOUND = "hundreds of tiny kernels"
    SLOW_LINE = "a slow line of Python in the loop"
    COLLECTOR = "pauses of the garbage collector"
    CHECKPOINTS = "checkpoints too often"
    EVALUATION = "evaluation too often"
    SERIAL_ENV = "environment stepped serially on the training thread"
    ONE_BY_ONE = "one inference for each environment"
    TURNS = "rollout and update take turns"
    CPU_REPLAY = "replay sampled on the CPU"
    SMALL_BATCH = "batch too small, memory free"
    FP32_MATH = "fp32 matrix products without tensor cores"
    MEMORY_BOUND = "a chain of elementwise operations, bound by memory"
    RECOMPILES = "recompiling for shapes that change"
    ALLOCATOR = "memory given back to the driver and asked for again"
    MODEL_ON_CPU = "a part of the model on the CPU"


@dataclass(frozen=True, slots=True)
class Script:
    """`faults` in the order of their cost (none: a healthy control), and of their marked lines.

    `on_cpu`: the fault is there without a GPU too. `speed`: the key of the last line that says whether the
    fix won.
    """

    file: str
    faults: tuple[StrEnum, ...]
    on_cpu: bool
    speed: str = "ticks_per_s"

    @property
    def planted_lines(self) -> int:
        return len(self.faults)


SCRIPTS = (
    Script("few_workers.py", (Fault.FEW_WORKERS,), on_cpu=True),
    Script("main_process.py", (Fault.MAIN_PROCESS,), on_cpu=True),
    Script("slow_disk.py", (Fault.SLOW_DISK,), on_cpu=True),
    Script("slow_collate.py", (Fault.SLOW_COLLATE,), on_cpu=True),
    Script("short_epochs.py", (Fault.SHORT_EPOCHS,), on_cpu=True),
    Script("pageable_copy.py", (Fault.PAGEABLE_COPY,), on_cpu=False),
    Script("item_sync.py", (Fault.SYNC_EACH_TICK,), on_cpu=False),
    Script("tiny_kernels.py", (Fault.LAUNCH_BOUND,), on_cpu=False),
    Script("python_lists.py", (Fault.SLOW_LINE,), on_cpu=True),
    Script("cyclic_garbage.py", (Fault.COLLECTOR,), on_cpu=True),
    Script("checkpoint_often.py", (Fault.CHECKPOINTS,), on_cpu=True),
    Script("eval_often.py", (Fault.EVALUATION,), on_cpu=True),
    Script("gym_serial.py", (Fault.SERIAL_ENV,), on_cpu=True),
    Script("own_sim.py", (Fault.SERIAL_ENV,), on_cpu=True),
    Script("one_by_one.py", (Fault.ONE_BY_ONE,), on_cpu=True),
    Script("turns.py", (Fault.TURNS,), on_cpu=True),
    Script("cpu_replay.py", (Fault.CPU_REPLAY,), on_cpu=True),
    Script("small_batch.py", (Fault.SMALL_BATCH,), on_cpu=False, speed="samples_per_s"),
    Script("fp32_math.py", (Fault.FP32_MATH,), on_cpu=False),
    Script("elementwise.py", (Fault.MEMORY_BOUND,), on_cpu=False),
    Script("recompile.py", (Fault.RECOMPILES,), on_cpu=True),
    Script("empty_cache.py", (Fault.ALLOCATOR,), on_cpu=False),
    Script("embedding_on_cpu.py", (Fault.MODEL_ON_CPU,), on_cpu=False),
    Script("two_loader_save.py", (Fault.FEW_WORKERS, Fault.CHECKPOINTS), on_cpu=True),
    Script("two_env_lists.py", (Fault.SERIAL_ENV, Fault.SLOW_LINE), on_cpu=True),
    Script("control_gpt.py", (), on_cpu=True),
    Script("control_loader.py", (), on_cpu=True),
    Script("control_ppo.py", (), on_cpu=True),
)
