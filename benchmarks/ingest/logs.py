"""Writes the logs that `measure.py` reads: a day of eight GPUs in three formats, and a million step rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

DAY_S = 86_400
GPUS = 8
ROWS = 1_000_000
_START = datetime(2026, 2, 17)
_LINES_PER_WRITE = 20_000


def _stamps(seconds: int) -> Iterator[str]:
    for second in range(seconds):
        yield (_START + timedelta(seconds=second)).strftime("%Y/%m/%d %H:%M:%S")


def smi_csv(seconds: int = DAY_S) -> Iterator[str]:
    """nvidia-smi --query-gpu=timestamp,index,utilization.gpu,… --format=csv -l 1"""
    draw = random.Random(1)
    yield "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]"
    for stamp in _stamps(seconds):
        for gpu in range(GPUS):
            figures = f"{draw.randrange(101)} %, {4000 + draw.randrange(300)} MiB, 24564 MiB"
            yield f"{stamp}.{draw.randrange(1000):03}, {gpu}, {figures}, {draw.uniform(90, 400):.2f} W"


def smi_csv_with_bad_lines(seconds: int = DAY_S) -> Iterator[str]:
    """The same with a driver error every ten minutes: every block has to go line by line."""
    for number, line in enumerate(smi_csv(seconds)):
        yield line
        if number % (600 * GPUS) == 0:
            yield "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error"


def dmon(seconds: int = DAY_S) -> Iterator[str]:
    """nvidia-smi dmon -s um -o DT"""
    draw = random.Random(2)
    for second, stamp in enumerate(_stamps(seconds)):
        if second % 10 == 0:
            yield "#Date       Time        gpu     sm    mem    enc    dec    jpg    ofa     fb   bar1   ccpm"
            yield "#YYYYMMDD   HH:MM:SS    Idx      %      %      %      %      %      %     MB     MB     MB"
        day, clock = stamp.replace("/", "").split()
        for gpu in range(GPUS):
            rest = "    12      0      0      0      0   4225     12      0"
            yield f" {day}   {clock}      {gpu}    {draw.randrange(101):3} {rest}"


def monitor(seconds: int = DAY_S) -> Iterator[str]:
    """The long cycle's monitor, polled every second instead of every three minutes."""
    draw = random.Random(3)
    for second, stamp in enumerate(_stamps(seconds)):
        yield f"=== {stamp.replace('/', '-')} ==="
        for gpu in range(GPUS):
            used, power = 4000 + draw.randrange(300), draw.uniform(90, 400)
            yield f"{gpu}, {draw.randrange(101)} %, {used} MiB, 24564 MiB, {power:.2f} W"
        yield f"current_case_note case_{second // 7200}_args.txt in_progress_long"
        yield ""


def step_rows(rows: int = ROWS) -> Iterator[str]:
    """metrics.jsonl with stage times: about 330 bytes a row."""
    draw = random.Random(4)
    for number in range(1, rows + 1):
        yield json.dumps(_step(draw, number))


def full_step_rows(rows: int = ROWS) -> Iterator[str]:
    """metrics.jsonl with losses, stage times and the loader's probe: about 1.1 kB a row."""
    draw = random.Random(5)
    losses = {name: draw.random() for name in ("cls_loss", "reg_losses_x", "reg_losses_z", "reg_losses_vis")}
    losses |= {
        name: draw.random()
        for name in ("class_index_issues", "loss_gpc", "loss_uncertainty", "non_finite_steps")
    }
    parts = ("ann", "image", "lanes", "camera", "sample_total")
    probe = {f"sample_time_{part}_{kind}": draw.random() for part in parts for kind in ("mean", "max")}
    tail = json.dumps({"losses": losses, "data_probe": probe})[1:]
    for number in range(1, rows + 1):
        yield json.dumps(_step(draw, number))[:-1] + ", " + tail


def _step(draw: random.Random, number: int) -> dict[str, object]:
    stages = {f"time_{name}": draw.random() for name in ("to_device", "forward", "loss", "backward")}
    return {
        "type": "iter",
        "rank": 0,
        "epoch": 1,
        "iter": number * 10,
        "iter_total": ROWS * 10,
        "lr": 0.0001,
        "data_time": draw.random() / 100,
        "iter_time": draw.random(),
        "stage_times": stages,
    }


LOGS: dict[str, Callable[[], Iterator[str]]] = {
    "gpu_day.csv": smi_csv,
    "gpu_day_bad_lines.csv": smi_csv_with_bad_lines,
    "gpu_day_dmon.txt": dmon,
    "gpu_day_monitor.log": monitor,
    "metrics_1m.jsonl": step_rows,
    "metrics_1m_full.jsonl": full_step_rows,
}


def write(path: Path, lines: Iterator[str]) -> None:
    with open(path, "w", encoding="ascii") as stream:
        kept: list[str] = []
        for line in lines:
            kept.append(line)
            if len(kept) == _LINES_PER_WRITE:
                stream.write("\n".join(kept) + "\n")
                kept = []
        stream.writelines(line + "\n" for line in kept)
