"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from enum import StrEnum

from second.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    PASTED_HERE = "batches made by the training thread"
    PER_GPU = "few workers, as there are few GPUs"
    PILLARS = "points sorted in Python by the collate function"
    UNSEEN = "films drawn one by one in Python"
    NEW_FUNCTION = "a new function to compile for each stage"
    STEPPED_HERE = "environments stepped by the training thread"
    EACH_AGENT = "an inference for each of many agents"
    FLIGHTS = "rollouts and updates that wait for each other"
    COMPARED = "a number on the GPU compared in Python after every step"
    LONGEST = "a slice by a number that is on the GPU"
    WORD_BY_WORD = "a loop of small kernels over words"
    JOINT_BY_JOINT = "a loop of small kernels over segments"
    NOT_PINNED = "large copies from pageable memory"
    SHARED_OUT = "a batch too small for the GPU"
    EXACT = "convolutions or products in full fp32"
    OFFLOADED = "a part that stayed on the CPU"
    FREED = "the allocator's cache emptied again and again"
    NOTHING_FORGOTTEN = "a memory on the GPU that grows without end"
    WRITTEN_OUT = "many elementwise passes over large tensors"
    TIDYING = "garbage collected by hand, with many objects alive"
    SAVED = "checkpoints much too often"
    TESTED = "evaluations much too often"


SCRIPTS = (
    Script("ships_copypaste.py", (Fault.PASTED_HERE,), on_cpu=True),
    Script("ecg_workers.py", (Fault.PER_GPU,), on_cpu=True),
    Script("pillars_collate.py", (Fault.PILLARS,), on_cpu=True),
    Script("ncf_negatives.py", (Fault.UNSEEN,), on_cpu=True),
    Script("margins_compiled.py", (Fault.NEW_FUNCTION,), on_cpu=True),
    Script("hover_sync.py", (Fault.STEPPED_HERE,), on_cpu=True),
    Script("greenhouse_agents.py", (Fault.EACH_AGENT,), on_cpu=True),
    Script("rockets_executor.py", (Fault.FLIGHTS,), on_cpu=True),
    Script("kl_schedule.py", (Fault.COMPARED,), on_cpu=False),
    Script("speech_lengths.py", (Fault.LONGEST,), on_cpu=False),
    Script("tagger_crf.py", (Fault.WORD_BY_WORD,), on_cpu=False),
    Script("arms_kinematics.py", (Fault.JOINT_BY_JOINT,), on_cpu=False),
    Script("tomography_rows.py", (Fault.NOT_PINNED,), on_cpu=False),
    Script("two_towers_split.py", (Fault.SHARED_OUT,), on_cpu=False, speed="samples_per_s"),
    Script("kpconv_legacy.py", (Fault.EXACT,), on_cpu=False),
    Script("latent_upcast.py", (Fault.EXACT,), on_cpu=False),
    Script("prompts_offload.py", (Fault.OFFLOADED,), on_cpu=False),
    Script("ice_guard.py", (Fault.FREED,), on_cpu=False),
    Script("curious_memory.py", (Fault.NOTHING_FORGOTTEN,), on_cpu=False),
    Script("chamfer_broadcast.py", (Fault.WRITTEN_OUT,), on_cpu=False),
    Script("pair_ferries_gc.py", (Fault.EACH_AGENT, Fault.TIDYING), on_cpu=True),
    Script("pair_melodies_gc.py", (Fault.OFFLOADED, Fault.TIDYING), on_cpu=False),
    Script("pair_dunes_save.py", (Fault.WRITTEN_OUT, Fault.SAVED), on_cpu=False),
    Script("pair_echoes_eval.py", (Fault.NOT_PINNED, Fault.TESTED), on_cpu=False),
    Script("pair_alloys_empty.py", (Fault.EXACT, Fault.FREED), on_cpu=False),
    Script("control_style.py", (), on_cpu=True),
    Script("control_scaler.py", (), on_cpu=True),
    Script("control_frames_ahead.py", (), on_cpu=True),
    Script("control_exact_islands.py", (), on_cpu=True),
    Script("control_filling_replay.py", (), on_cpu=True),
    Script("control_short_chain.py", (), on_cpu=True),
)
