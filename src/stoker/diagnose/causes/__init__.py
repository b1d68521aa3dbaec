"""The causes of lost time: one file each, one list, stable codes.

SK1xx input · SK2xx host and Python · SK3xx reinforcement learning · SK4xx GPU · SK5xx machine. A code is
never used again for something else. Each has its page: docs/causes/SKnnn.md.
"""

from __future__ import annotations

from stoker.diagnose.causes import (
    allocator_thrash,
    blocking_copies,
    checkpoint_stall,
    cores_exhausted,
    evaluation_stall,
    gc_pauses,
    held_interpreter,
    hot_line,
    launch_bound,
    main_process_loading,
    memory_bound,
    memory_leak,
    model_on_cpu,
    recompiling,
    serial_env,
    shared_card,
    single_inference,
    slow_collate,
    small_batch,
    storage_latency,
    straggler,
    sync_every_tick,
    tensor_cores_off,
    throttled,
    too_few_workers,
    turns,
    waits_for_core,
    worker_restart,
)
from stoker.diagnose.causes.cause import Cause

CAUSES: tuple[Cause, ...] = (
    main_process_loading.CAUSE,
    too_few_workers.CAUSE,
    cores_exhausted.CAUSE,
    storage_latency.CAUSE,
    slow_collate.CAUSE,
    worker_restart.CAUSE,
    hot_line.CAUSE,
    gc_pauses.CAUSE,
    checkpoint_stall.CAUSE,
    evaluation_stall.CAUSE,
    recompiling.CAUSE,
    held_interpreter.CAUSE,
    serial_env.CAUSE,
    single_inference.CAUSE,
    turns.CAUSE,
    sync_every_tick.CAUSE,
    launch_bound.CAUSE,
    blocking_copies.CAUSE,
    small_batch.CAUSE,
    tensor_cores_off.CAUSE,
    model_on_cpu.CAUSE,
    allocator_thrash.CAUSE,
    memory_leak.CAUSE,
    memory_bound.CAUSE,
    shared_card.CAUSE,
    throttled.CAUSE,
    straggler.CAUSE,
    waits_for_core.CAUSE,
)
