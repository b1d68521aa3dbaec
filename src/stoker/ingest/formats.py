"""The one list of what we can read, in the order in which a file is tried. A file is known by its content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stoker.ingest import (
    allocation_profile,
    attempts,
    bench_gpu_csv,
    case_manifest,
    case_table,
    console_table,
    duration_jsonl,
    iteration_log,
    loop_profile,
    metrics_jsonl,
    monitor_log,
    nvidia_smi_csv,
    nvidia_smi_dmon,
    nvidia_smi_table,
    offpolicy_console,
    progress,
    run_settings,
    window_notes,
)
from stoker.ingest.source import Reading, Source


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    looks_like: str
    recognise: Callable[[Source], bool]
    read: Callable[[Source], Reading]


def _format(name: str, looks_like: str, module: object) -> Format:
    return Format(name, looks_like, module.recognise, module.read)  # type: ignore[attr-defined]


FORMATS: tuple[Format, ...] = (
    _format("allocation profile", "a TSV with case, selection_reason and score", allocation_profile),
    _format("case manifest", "a TSV with case, method, mode and env_config", case_manifest),
    _format(
        "case table",
        "best_by_case.tsv, a sweep or a Markdown table with case and utilisation or status",
        case_table,
    ),
    _format("attempts", "a JSON list of attempts with num_envs and final_ok", attempts),
    _format("loop profile", "JSON with env_steps and updates", loop_profile),
    _format("progress", "JSON with done and total", progress),
    _format("step rows", "JSON lines with iter, data_time and iter_time (metrics.jsonl)", metrics_jsonl),
    _format("durations", "JSON lines with step and duration", duration_jsonl),
    _format("iteration log", "columns beginning with Iteration and Wall_Time (log.txt)", iteration_log),
    _format(
        "bench GPU samples",
        "eight numbers a sample: utilisation, memory, total, power of two GPUs",
        bench_gpu_csv,
    ),
    _format("monitor log", "stamped blocks of GPU rows, or lines with GPU0=57%", monitor_log),
    _format("nvidia-smi CSV", "nvidia-smi --query-gpu=…utilization.gpu… --format=csv", nvidia_smi_csv),
    _format("nvidia-smi dmon", "nvidia-smi dmon", nvidia_smi_dmon),
    _format("nvidia-smi table", "the drawn table of nvidia-smi -l", nvidia_smi_table),
    _format("window notes", "text with gpu0_avg=… and both_avg=…", window_notes),
    _format("off-policy console", "lines [Episode 00001] total_reward: …", offpolicy_console),
    _format("console", "tables | Iteration | 7 | …, or the error a run ended with", console_table),
    _format("settings", "a configuration with num_workers, batch_size, update_interval, …", run_settings),
)
