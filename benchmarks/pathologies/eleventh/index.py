"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `ninth/`, where several lines may be marked.
"""

from __future__ import annotations

from enum import StrEnum

from ninth.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    UNSET = "loading by the training thread"
    SHARE_OF_NODE = "few workers, as if there were seven other jobs"
    SMALL_STEPS = "a worker on every core, and too much work for each sample"
    DOWNLOAD = "workers that wait for a slow download"
    CLIMBED = "trees climbed word by word in the collate function"
    ROUNDS = "workers started anew for each short round or epoch"
    ROW_BY_ROW = "rows or letters gone through in Python by the training thread"
    RECLAIMED = "garbage collected by hand, with many objects alive"
    SAVED = "the run saved much too often"
    TESTED = "evaluations much too often"
    CHOICES = "another program to compile for each choice of layers"
    DUPLICATES = "a thread of plain Python beside the training"
    STEPPED_HERE = "environments stepped by the training thread"
    EACH_MOVE = "an inference for each of many positions"
    BARRIER = "rollouts and updates that wait for each other"
    FETCHED = "a number fetched from the GPU in each step, with host work after it"
    DEGREES = "a recursion of small kernels"
    CAREFUL = "a large product in full fp32"
    HOOKED = "what a hook keeps on the GPU, without end"
    HARMONICS = "many elementwise passes over large tensors"
    LEFT_BEHIND = "a part that stayed on the CPU"
    EMPTIED = "the allocator's cache emptied again and again"
    ORDINARY = "large blocking copies from pageable memory"


SCRIPTS = (
    Script("coral_tiles.py", (Fault.UNSET,), on_cpu=True, lines=2),
    Script("bats_ultrasound.py", (Fault.SHARE_OF_NODE,), on_cpu=True),
    Script("muon_showers.py", (Fault.SMALL_STEPS,), on_cpu=True),
    Script("glacier_pipes.py", (Fault.DOWNLOAD,), on_cpu=True, lines=2),
    Script("syntax_trees.py", (Fault.CLIMBED,), on_cpu=True, lines=2),
    Script("minerals_active.py", (Fault.ROUNDS,), on_cpu=True, lines=2),
    Script("hotel_encodings.py", (Fault.ROW_BY_ROW,), on_cpu=True, lines=2),
    Script("retro_synthesis.py", (Fault.RECLAIMED,), on_cpu=True),
    Script("forklift_buffer.py", (Fault.SAVED,), on_cpu=True),
    Script("butterflies_knn.py", (Fault.TESTED,), on_cpu=True),
    Script("layerdrop_speech.py", (Fault.CHOICES,), on_cpu=True),
    Script("dedup_shingles.py", (Fault.DUPLICATES,), on_cpu=True),
    Script("marble_coroutines.py", (Fault.STEPPED_HERE,), on_cpu=True),
    Script("backgammon_afterstates.py", (Fault.EACH_MOVE,), on_cpu=True),
    Script("quarry_barrier.py", (Fault.BARRIER,), on_cpu=True),
    Script("autoclip_cardio.py", (Fault.FETCHED,), on_cpu=False),
    Script("chebykan_stars.py", (Fault.DEGREES,), on_cpu=False),
    Script("barlow_moths.py", (Fault.CAREFUL,), on_cpu=False),
    Script("probe_hooks.py", (Fault.HOOKED,), on_cpu=False),
    Script("harmonic_vocoder.py", (Fault.HARMONICS,), on_cpu=False),
    Script("pair_lyrics_save.py", (Fault.ROW_BY_ROW, Fault.SAVED), on_cpu=True),
    Script("pair_drills_eval.py", (Fault.STEPPED_HERE, Fault.TESTED), on_cpu=True),
    Script("pair_ants_epochs.py", (Fault.ROUNDS, Fault.TESTED), on_cpu=True),
    Script("pair_moons_empty.py", (Fault.LEFT_BEHIND, Fault.EMPTIED), on_cpu=False),
    Script("pair_quakes_gc.py", (Fault.ORDINARY, Fault.RECLAIMED), on_cpu=False),
    Script("control_memmap_tokens.py", (), on_cpu=True),
    Script("control_zip_thread.py", (), on_cpu=True),
    Script("control_actor_ahead.py", (), on_cpu=True),
    Script("control_small_checks.py", (), on_cpu=True),
    Script("control_long_epochs.py", (), on_cpu=True),
    Script("control_tides.py", (), on_cpu=True),
)
