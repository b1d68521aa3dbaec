"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `ninth/`, where several lines may be marked.
"""

from __future__ import annotations

from enum import StrEnum

from ninth.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    DEBUG = "loading by the training thread"
    TWO_AT_MOST = "two workers, while cores are free for more"
    BLOCK_BY_BLOCK = "workers that wait for a file server, block by block"
    SETS = "baskets compared one by one in the collate function"
    RANKED = "all levels ranked in Python in every step"
    GUARDED = "garbage collected by hand, with many objects alive"
    SAVED = "checkpoints much too often"
    TESTED = "evaluations much too often"
    NUMBERED = "another program to compile for each name or number"
    ALIGNED = "a thread of plain Python beside the training"
    STEPPED_HERE = "environments stepped by the training thread"
    ASKED_ALONE = "an inference for each of many environments"
    COMPARED = "numbers on the GPU compared by Python, one by one"
    ONE_BY_ONE = "tiny kernels for each of many parts or weights"
    STRIPS = "large copies to the GPU from pageable memory"
    IN_FULL = "large products in full fp32"
    TAKEN_OUT = "a part that was taken to the CPU and stayed there"
    MADE_FREE = "the allocator's cache emptied again and again"
    ENDLESS = "a queue on the GPU without end"
    PIXELS = "many elementwise passes over large tensors"
    EPOCHS = "workers started anew for each short epoch"
    BY_TURNS = "rollouts in processes and updates that wait for each other"


SCRIPTS = (
    Script("orchids_debug.py", (Fault.DEBUG,), on_cpu=True, lines=2),
    Script("smoke_towers.py", (Fault.TWO_AT_MOST,), on_cpu=True),
    Script("pulsars_blocks.py", (Fault.BLOCK_BY_BLOCK,), on_cpu=True, lines=2),
    Script("baskets_collate.py", (Fault.SETS,), on_cpu=True, lines=2),
    Script("levels_replay.py", (Fault.RANKED,), on_cpu=True, lines=3),
    Script("herbs_guard.py", (Fault.GUARDED,), on_cpu=True),
    Script("volcano_keeper.py", (Fault.SAVED,), on_cpu=True),
    Script("accents_interval.py", (Fault.TESTED,), on_cpu=True, lines=2),
    Script("voices_tag.py", (Fault.NUMBERED,), on_cpu=True),
    Script("subtitles_aligner.py", (Fault.ALIGNED,), on_cpu=True, lines=3),
    Script("locks_gather.py", (Fault.STEPPED_HERE,), on_cpu=True, lines=7),
    Script("dispatch_events.py", (Fault.ASKED_ALONE,), on_cpu=True),
    Script("fields_hardest.py", (Fault.COMPARED,), on_cpu=False),
    Script("lagoon_mixture.py", (Fault.ONE_BY_ONE,), on_cpu=False, lines=2),
    Script("orchard_strips.py", (Fault.STRIPS,), on_cpu=False),
    Script("mosaics_zca.py", (Fault.IN_FULL,), on_cpu=False),
    Script("tapestry_export.py", (Fault.TAKEN_OUT,), on_cpu=False, lines=2),
    Script("frescoes_chunks.py", (Fault.MADE_FREE,), on_cpu=False),
    Script("lichens_queue.py", (Fault.ENDLESS,), on_cpu=False, lines=2),
    Script("film_tones.py", (Fault.PIXELS,), on_cpu=False, lines=3),
    Script("pair_posters_epochs.py", (Fault.EPOCHS, Fault.IN_FULL), on_cpu=False, lines=3),
    Script("pair_trams_eval.py", (Fault.BY_TURNS, Fault.TESTED), on_cpu=True),
    Script("pair_falcons_lamps.py", (Fault.ASKED_ALONE, Fault.PIXELS), on_cpu=False, lines=3),
    Script("pair_dunes_penalty.py", (Fault.ONE_BY_ONE, Fault.SAVED), on_cpu=False),
    Script("pair_gondolas_lesson.py", (Fault.STEPPED_HERE, Fault.NUMBERED), on_cpu=True),
    Script("control_drift_alarm.py", (), on_cpu=True),
    Script("control_small_copies.py", (), on_cpu=True),
    Script("control_one_worker.py", (), on_cpu=True),
    Script("control_late_buoys.py", (), on_cpu=True),
    Script("control_two_slides.py", (), on_cpu=True),
    Script("control_auroras.py", (), on_cpu=True),
)
