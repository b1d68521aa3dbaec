"""A whole run, read from its folder: at the end, while it lives, or after a kill."""

from __future__ import annotations

from pathlib import Path

from stoker.inside import wire
from stoker.model.record import ProcessRecord, Tick
from stoker.model.run import Run
from stoker.store.folder import read_info
from stoker.store.gpu_files import read_gpu
from stoker.store.host_files import read_host
from stoker.store.inside_files import read_process, read_ticks


def load(folder: Path) -> Run:
    processes: list[ProcessRecord] = []
    unreadable: list[str] = []
    for path in sorted((folder / "inside").glob("*-*.jsonl")):
        if path.name.startswith("workers-"):
            continue
        try:
            record = read_process(path)
        except (OSError, KeyError, TypeError, ValueError) as error:
            unreadable.append(f"{path.name}: {error!r}")
            continue
        if record is not None:
            processes.append(record)
    return Run(
        folder,
        read_info(folder),
        tuple(processes),
        read_host(folder),
        tuple(unreadable),
        read_gpu(folder),
    )


def recorded_ticks(run: Run, record: ProcessRecord) -> tuple[Tick, ...]:
    """Every tick that is still in the files, with its phases: the first minute and the last ten."""
    return read_ticks(run.folder / "inside" / record.file, "first", *wire.TAILS) if record.file else ()
