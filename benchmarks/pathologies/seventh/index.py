"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from enum import StrEnum

from second.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    DEBUGGING = "a data module with the settings of a debugger: no workers"
    FEW_READERS = "few workers for large photographs"
    LATE_STORE = "workers that wait for a key-value store"
    COUNTED_THERE = "plain Python in the collate function"
    ENDLESS = "worker processes started anew when an endless stream begins again"
    CHOICES = "a replay that adds up its weights whenever it is asked"
    JOINT_BY_JOINT = "rotations turned one by one in plain Python"
    RESOLVING = "settings resolved in every step"
    SPELLING = "words compared letter by letter in every step"
    COLLECTING = "garbage collected by hand, with many objects alive"
    ROTATING = "the state of the run written much too often"
    MEASURING = "evaluations much too often"
    OTHER_KEYS = "a dictionary with other keys for a compiled module"
    TELEMETRY = "a thread of plain Python beside the training"
    OWN_WORLD = "a world of Python objects stepped by the training thread"
    SINGLE_ACTION = "an inference for each member of a group"
    ASK_AND_WAIT = "processes and a training that wait for each other"
    GUARD = "a guard that looks at a number on the GPU in every step"
    PICTURE_BY_PICTURE = "a loss of many small kernels"
    NESTED = "large blocking copies from pageable memory"
    MICRO = "a batch too small for the GPU"
    CASTS = "products that are cast to fp32"
    NOT_SENT = "layers that stayed on the CPU"
    STENCIL = "many elementwise passes over large tensors"
    FREED = "the allocator's cache emptied again and again"


SCRIPTS = (
    Script("lanes_datamodule.py", (Fault.DEBUGGING,), on_cpu=True),
    Script("plankton_photos.py", (Fault.FEW_READERS,), on_cpu=True),
    Script("nowcast_keyvalue.py", (Fault.LATE_STORE,), on_cpu=True),
    Script("tts_durations.py", (Fault.COUNTED_THERE,), on_cpu=True),
    Script("denoise_cycle.py", (Fault.ENDLESS,), on_cpu=True),
    Script("reacher_priorities.py", (Fault.CHOICES,), on_cpu=True),
    Script("motion_library.py", (Fault.JOINT_BY_JOINT,), on_cpu=True),
    Script("config_resolver.py", (Fault.RESOLVING,), on_cpu=True),
    Script("imagined_lives.py", (Fault.COLLECTING,), on_cpu=True),
    Script("superres_rotation.py", (Fault.ROTATING,), on_cpu=True),
    Script("sprites_distance.py", (Fault.MEASURING,), on_cpu=True),
    Script("crane_callback.py", (Fault.MEASURING,), on_cpu=True),
    Script("sensor_dropout.py", (Fault.OTHER_KEYS,), on_cpu=True),
    Script("telemetry_thread.py", (Fault.TELEMETRY,), on_cpu=True),
    Script("gripper_wrappers.py", (Fault.OWN_WORLD,), on_cpu=True),
    Script("lidar_fleet.py", (Fault.OWN_WORLD,), on_cpu=True),
    Script("junctions_dict.py", (Fault.SINGLE_ACTION,), on_cpu=True),
    Script("walkers_remote.py", (Fault.ASK_AND_WAIT,), on_cpu=True),
    Script("nan_guard.py", (Fault.GUARD,), on_cpu=False),
    Script("shelf_losses.py", (Fault.PICTURE_BY_PICTURE,), on_cpu=False),
    Script("sweeps_nested.py", (Fault.NESTED,), on_cpu=False),
    Script("sonar_microbatches.py", (Fault.MICRO,), on_cpu=False, speed="samples_per_s"),
    Script("emulator_casts.py", (Fault.CASTS,), on_cpu=False),
    Script("vqvae_perceptual.py", (Fault.NOT_SENT,), on_cpu=False),
    Script("heat_stencil.py", (Fault.STENCIL,), on_cpu=False),
    Script("pair_chords_save.py", (Fault.COUNTED_THERE, Fault.ROTATING), on_cpu=True),
    Script("pair_dialects_epochs.py", (Fault.ENDLESS, Fault.SPELLING), on_cpu=True),
    Script("pair_kites_eval.py", (Fault.OWN_WORLD, Fault.MEASURING), on_cpu=True),
    Script("pair_beetles_snapshots.py", (Fault.ASK_AND_WAIT, Fault.ROTATING), on_cpu=True),
    Script("pair_scans_save.py", (Fault.NESTED, Fault.ROTATING), on_cpu=False),
    Script("pair_tutors_free.py", (Fault.FREED, Fault.COLLECTING), on_cpu=False),
    Script("control_persistent_epochs.py", (), on_cpu=True),
    Script("control_background_save.py", (), on_cpu=True),
    Script("control_late_metrics.py", (), on_cpu=True),
    Script("control_watchdog.py", (), on_cpu=True),
    Script("control_callbacks.py", (), on_cpu=True),
    Script("control_recommender.py", (), on_cpu=True),
)
