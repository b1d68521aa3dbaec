"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `ninth/`, where several lines may be marked.
"""

from __future__ import annotations

from enum import StrEnum

from ninth.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    LAPTOP = "loading by the training thread"
    ONE_LOADS = "one worker, while cores are free for more"
    DRAWN_LARGE = "a worker on every core, and too much work for each sample"
    STORE = "workers that wait for a slow object store"
    NEIGHBOURS = "neighbours looked for atom by atom in the collate function"
    FOLDS = "workers started anew for each short fold"
    BACKWARDS = "returns worked out step by step in Python by the training thread"
    COOLED = "another program to compile for each temperature"
    LEAGUE = "a thread of plain Python beside the training"
    PULLED_HERE = "environments stepped by the training thread"
    PIPES = "rollouts in processes and updates that wait for each other"
    ASKED_DONE = "questions to the GPU, one by one, in each step"
    WEIGHT_BY_WEIGHT = "tiny kernels for each of many weights, or hours"
    NOT_PINNED = "large copies to the GPU from pageable memory"
    SMALL_LOTS = "a batch too small for the GPU"
    IN_FULL = "large products in full fp32"
    PLAIN_LIST = "a part that stayed on the CPU"
    TIDIED = "the allocator's cache emptied again and again"
    ENDLESS = "a memory on the GPU without end"
    BELLS = "many elementwise passes over large tensors"
    SAVED = "checkpoints much too often"
    FERRIES = "an inference for each of many ferries"
    RECLAIMED = "garbage collected by hand, with many objects alive"
    TESTED = "evaluations much too often"


SCRIPTS = (
    Script("kelp_survey.py", (Fault.LAPTOP,), on_cpu=True, lines=2),
    Script("whales_tapers.py", (Fault.ONE_LOADS,), on_cpu=True),
    Script("receipts_ocr.py", (Fault.DRAWN_LARGE,), on_cpu=True, lines=2),
    Script("gauges_http.py", (Fault.STORE,), on_cpu=True, lines=2),
    Script("crystals_collate.py", (Fault.NEIGHBOURS,), on_cpu=True, lines=3),
    Script("seeds_crossval.py", (Fault.FOLDS,), on_cpu=True, lines=2),
    Script("glider_returns.py", (Fault.BACKWARDS,), on_cpu=True, lines=3),
    Script("glyphs_temperature.py", (Fault.COOLED,), on_cpu=True),
    Script("league_ratings.py", (Fault.LEAGUE,), on_cpu=True, lines=4),
    Script("tugboats_ddpg.py", (Fault.PULLED_HERE,), on_cpu=True, lines=2),
    Script("parcels_pipes.py", (Fault.PIPES,), on_cpu=True),
    Script("hovercraft_dones.py", (Fault.ASKED_DONE,), on_cpu=False),
    Script("smog_lion.py", (Fault.WEIGHT_BY_WEIGHT,), on_cpu=False, lines=3),
    Script("neuron_cubes.py", (Fault.NOT_PINNED,), on_cpu=False),
    Script("masked_residues.py", (Fault.SMALL_LOTS,), on_cpu=False, speed="samples_per_s"),
    Script("chorales_head.py", (Fault.IN_FULL,), on_cpu=False, lines=2),
    Script("kilns_experts.py", (Fault.PLAIN_LIST,), on_cpu=False, lines=3),
    Script("aurora_latents.py", (Fault.TIDIED,), on_cpu=False),
    Script("caves_novelty.py", (Fault.ENDLESS,), on_cpu=False),
    Script("frogs_heatmaps.py", (Fault.BELLS,), on_cpu=False, lines=2),
    Script("pair_clinic_save.py", (Fault.LAPTOP, Fault.SAVED), on_cpu=True, lines=3),
    Script("pair_ferries_gc.py", (Fault.FERRIES, Fault.RECLAIMED), on_cpu=True),
    Script("pair_rovers_fp32.py", (Fault.PULLED_HERE, Fault.IN_FULL), on_cpu=False),
    Script("pair_rivers_eval.py", (Fault.WEIGHT_BY_WEIGHT, Fault.TESTED), on_cpu=False),
    Script("pair_pipes_empty.py", (Fault.NOT_PINNED, Fault.TIDIED), on_cpu=False),
    Script("control_ram_batches.py", (), on_cpu=True),
    Script("control_late_loss.py", (), on_cpu=True),
    Script("control_python_beside.py", (), on_cpu=True),
    Script("control_tiny_heads.py", (), on_cpu=True),
    Script("control_patient_collate.py", (), on_cpu=True),
    Script("control_tensor_envs.py", (), on_cpu=True),
)
