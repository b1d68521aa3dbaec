"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from enum import StrEnum

from second.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    FALLEN = "an index of those who fell, for which the host waits"
    DEAD_ANCHORS = "a question to the GPU after every step"
    LOOK_UPS = "a loop of small kernels over frames"
    ROLL_OUTS = "a loop of small kernels over problems or trees"
    NESTED = "large blocking copies from pageable memory"
    LAPTOP = "a batch too small for the GPU"
    EXACT = "convolutions or products in full fp32"
    RESUMED = "a part that was loaded to the CPU and stayed there"
    FRESH_PEAKS = "the allocator's cache emptied again and again"
    WAVES = "many elementwise passes over large tensors"
    OWN_ITERATOR = "batches made by the training thread"
    FEW_PENS = "few workers for much drawing"
    SHARE = "workers that wait for storage"
    PRIORS = "priors worked out in the collate function"
    NEW_LOADERS = "a new loader after each episode"
    SUM_TREE = "a tree in Python searched in every step"
    PLAIN_NUMBERS = "numbers that the compiler takes for constants"
    STEPPED_HERE = "environments stepped by the training thread"
    DASHBOARD = "a thread that computes in Python all the time"
    BARRIER = "rollouts and updates that wait for each other"
    ALONE = "an inference for each of many vehicles"
    TESTED = "evaluations much too often"
    TIDYING = "garbage collected by hand, with many objects alive"
    SAVED = "checkpoints much too often"


SCRIPTS = (
    Script("signs_numpy.py", (Fault.OWN_ITERATOR,), on_cpu=True),
    Script("sketch_strokes.py", (Fault.FEW_PENS,), on_cpu=True),
    Script("clone_video.py", (Fault.SHARE,), on_cpu=True),
    Script("tts_priors.py", (Fault.PRIORS,), on_cpu=True),
    Script("dreams_loader.py", (Fault.NEW_LOADERS,), on_cpu=True),
    Script("sac_priorities.py", (Fault.SUM_TREE,), on_cpu=True),
    Script("automaton_damage.py", (Fault.PLAIN_NUMBERS,), on_cpu=True),
    Script("crowd_dashboard.py", (Fault.DASHBOARD,), on_cpu=True),
    Script("harvest_qmix.py", (Fault.STEPPED_HERE,), on_cpu=True),
    Script("barrier_hunters.py", (Fault.BARRIER,), on_cpu=True),
    Script("legged_mimic.py", (Fault.FALLEN,), on_cpu=False),
    Script("lane_anchors.py", (Fault.DEAD_ANCHORS,), on_cpu=False),
    Script("track_points.py", (Fault.LOOK_UPS,), on_cpu=False),
    Script("learned_optimizer.py", (Fault.ROLL_OUTS,), on_cpu=False),
    Script("satellite_changes.py", (Fault.NESTED,), on_cpu=False),
    Script("slide_heads.py", (Fault.LAPTOP,), on_cpu=False, speed="samples_per_s"),
    Script("superres_perceptual.py", (Fault.EXACT,), on_cpu=False),
    Script("gait_style.py", (Fault.RESUMED,), on_cpu=False),
    Script("mae_peaks.py", (Fault.FRESH_PEAKS,), on_cpu=False),
    Script("forced_flow.py", (Fault.WAVES,), on_cpu=False),
    Script("pair_taxis_eval.py", (Fault.ALONE, Fault.TESTED), on_cpu=True),
    Script("pair_mazes_gc.py", (Fault.STEPPED_HERE, Fault.TIDYING), on_cpu=True),
    Script("pair_codes_save.py", (Fault.EXACT, Fault.SAVED), on_cpu=False),
    Script("pair_clouds_eval.py", (Fault.WAVES, Fault.TESTED), on_cpu=False),
    Script("pair_trees_empty.py", (Fault.ROLL_OUTS, Fault.FRESH_PEAKS), on_cpu=False),
    Script("pair_slices_windows.py", (Fault.NESTED, Fault.PLAIN_NUMBERS), on_cpu=False),
    Script("control_walkers.py", (), on_cpu=True),
    Script("control_late_reads.py", (), on_cpu=True),
    Script("control_kites.py", (), on_cpu=True),
    Script("control_masks.py", (), on_cpu=True),
    Script("control_heartbeat.py", (), on_cpu=True),
    Script("control_parcels.py", (), on_cpu=True),
)
