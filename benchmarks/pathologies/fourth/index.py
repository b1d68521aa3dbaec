"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from enum import StrEnum

from second.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    NO_WORKERS = "samples made by the training process"
    TWO_WORKERS = "two workers where a dozen are needed"
    LATE_STORE = "workers that wait for an object store"
    PYTHON_COLLATE = "a collate function that colours graphs in Python"
    NEW_LOADER = "worker processes started anew for each short epoch"
    BYTE_PAIRS = "text cut into tokens in plain Python"
    TIDY_UP = "garbage collected by hand, with many objects alive"
    SNAPSHOTS = "weights written every few steps"
    SCORING = "a validation set gone through every few steps"
    OWN_WORLDS = "simulated worlds stepped one by one on the training thread"
    ASKED_ALONE = "the policy asked for one actor at a time"
    TAKING_TURNS = "a collector and the GPU that wait for each other"
    METERS = "numbers read from the GPU in every step"
    PYTHON_MIN = "a comparison in Python that waits for the GPU"
    SMALL_GRAPHS = "a loop over small graphs, a few small kernels each"
    PAGEABLE = "large blocking copies from ordinary memory"
    NO_AUTOCAST = "a part of the net in full fp32"
    LEFT_ON_CPU = "a module that stayed on the CPU"
    EMPTIED = "the allocator's cache emptied again and again"
    LONG_CHAIN = "many elementwise passes over large tensors"


SCRIPTS = (
    Script("pointcloud_main.py", (Fault.NO_WORKERS,), on_cpu=True),
    Script("keywords_workers.py", (Fault.TWO_WORKERS,), on_cpu=True),
    Script("tiles_object_store.py", (Fault.LATE_STORE,), on_cpu=True),
    Script("graph_collate.py", (Fault.PYTHON_COLLATE,), on_cpu=True),
    Script("towers_epochs.py", (Fault.NEW_LOADER,), on_cpu=True),
    Script("bytepair_lm.py", (Fault.BYTE_PAIRS,), on_cpu=True),
    Script("clone_callbacks.py", (Fault.TIDY_UP,), on_cpu=True),
    Script("dreamer_npz.py", (Fault.SNAPSHOTS,), on_cpu=True),
    Script("landcover_iou.py", (Fault.SCORING,), on_cpu=True),
    Script("warehouse_pickers.py", (Fault.OWN_WORLDS,), on_cpu=True),
    Script("drivers_alone.py", (Fault.ASKED_ALONE,), on_cpu=True),
    Script("collector_turns.py", (Fault.TAKING_TURNS,), on_cpu=True),
    Script("contrastive_meters.py", (Fault.METERS,), on_cpu=False),
    Script("forecaster_patience.py", (Fault.PYTHON_MIN,), on_cpu=False),
    Script("ligands_loop.py", (Fault.SMALL_GRAPHS,), on_cpu=False),
    Script("bursts_copy.py", (Fault.PAGEABLE,), on_cpu=False),
    Script("radiance_fp32.py", (Fault.NO_AUTOCAST,), on_cpu=False),
    Script("codebook_stays.py", (Fault.LEFT_ON_CPU,), on_cpu=False),
    Script("gan_fresh_memory.py", (Fault.EMPTIED,), on_cpu=False),
    Script("audio_effects.py", (Fault.LONG_CHAIN,), on_cpu=False),
    Script("pair_main_gc.py", (Fault.NO_WORKERS, Fault.TIDY_UP), on_cpu=True),
    Script("pair_actors_physics.py", (Fault.ASKED_ALONE, Fault.OWN_WORLDS), on_cpu=True),
    Script("pair_epochs_save.py", (Fault.NEW_LOADER, Fault.SNAPSHOTS), on_cpu=True),
    Script("pair_fp32_sweeps.py", (Fault.NO_AUTOCAST, Fault.PAGEABLE), on_cpu=False),
    Script("pair_anchors_eval.py", (Fault.LEFT_ON_CPU, Fault.SCORING), on_cpu=False),
    Script("pair_carts_empty.py", (Fault.OWN_WORLDS, Fault.EMPTIED), on_cpu=False),
    Script("control_diffusion.py", (), on_cpu=True),
    Script("control_hidden_loading.py", (), on_cpu=True),
    Script("control_occasional.py", (), on_cpu=True),
    Script("control_sequence.py", (), on_cpu=True),
    Script("control_clouds.py", (), on_cpu=True),
    Script("control_quadrotors.py", (), on_cpu=True),
)
