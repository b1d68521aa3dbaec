"""The class of a run: its line beside the GPU's bar, and the same for programs."""

from __future__ import annotations

from dataclasses import asdict

from stoker.diagnose.classes import CaseClass, Limits
from stoker.diagnose.gpu_causes import Source
from stoker.diagnose.run_class import RunClass

_SOURCES = {Source.GPM: "GPM", Source.NVML: "NVML", Source.BOTH: "GPM and NVML"}


def class_row(found: RunClass | None) -> list[tuple[str, str]]:
    return [("class", _text(found))] if found else []


def _text(found: RunClass) -> str:
    if found.name is CaseClass.UNCLASSIFIABLE:
        return f"{found.name}: {found.judgement.why}"
    near = found.judgement.near_limit_pct
    close = f"; close to the limit of {near:g} %" if near is not None else ""
    return f"{found.name}: {_busy(found)}, {_memory(found)}{close}"


def _busy(found: RunClass) -> str:
    least = f", the least of {found.gpus}" if found.gpus > 1 else ""
    source = next((f" ({name})" for one, name in _SOURCES.items() if one == found.source), "")
    return f"GPU busy {found.figures.util_pct:.0f} %{least}{source}"


def _memory(found: RunClass) -> str:
    peak_mib, total_mib = found.figures.peak_mem_mib, found.figures.mem_total_mib
    if peak_mib is None:
        return "memory not known"
    return f"memory {100 * peak_mib / total_mib:.0f} %" if total_mib else f"memory {peak_mib:.0f} MiB"


def class_data(found: RunClass | None, limits: Limits) -> dict[str, object] | None:
    if found is None:
        return None
    judged, figures = found.judgement, found.figures
    return {
        "name": judged.case_class.value,
        "why": judged.why,
        "util_pct": figures.util_pct,
        "util_source": found.source,
        "peak_mem_mib": figures.peak_mem_mib,
        "mem_total_mib": figures.mem_total_mib,
        "samples": figures.samples,
        "gpus": found.gpus,
        "memory_known": judged.memory_known,
        "near_limit_pct": judged.near_limit_pct,
        "limits": asdict(limits),
    }
