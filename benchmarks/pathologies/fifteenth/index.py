"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `ninth/`, where several lines may be marked.
"""

from __future__ import annotations

from enum import StrEnum

from ninth.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    UNAIDED = "loading by the training thread"
    ONE_MAKER = "one worker that makes all views, while there is room for another"
    WHOLE_TILES = "a worker on every core, and too much work for each sample"
    BUCKET = "reads that wait for a server by HTTP"
    MERGED = "words cut into byte pairs in the collate function"
    SHORT_TASKS = "workers started anew for each short task"
    EDITS = "letters compared in a callback, after every batch"
    TREE = "priorities in a tree of Python lists"
    GRAMMAR = "what is allowed found in Python, between any two steps of a cell"
    RECORDED = "poses blended robot by robot, between any two steps of a simulation"
    TIDIED = "garbage collected by hand, with many objects alive"
    KEPT = "checkpoints much too often"
    EXAMINED = "evaluations much too often"
    CONSTANT = "a number in a compiled module that changes again and again"
    COUNTED = "a thread of plain Python beside the training"
    ONE_BY_ONE = "environments stepped by the training thread"
    EACH_ALONE = "an inference for each of many agents"
    WAITED_FOR = "rollouts in a process and updates that wait for each other"
    NOVELTY = "distances and their order found in Python"
    SUMS = "advantages summed up from lists of Python"


SCRIPTS = (
    Script("lane_frames.py", (Fault.UNAIDED,), on_cpu=True, lines=3),
    Script("contrastive_views.py", (Fault.ONE_MAKER,), on_cpu=True),
    Script("aerial_segments.py", (Fault.WHOLE_TILES,), on_cpu=True, lines=2),
    Script("tile_denoiser.py", (Fault.BUCKET,), on_cpu=True, lines=2),
    Script("byte_pairs.py", (Fault.MERGED,), on_cpu=True, lines=4),
    Script("few_shot_tasks.py", (Fault.SHORT_TASKS,), on_cpu=True, lines=2),
    Script("ocr_letters.py", (Fault.EDITS,), on_cpu=True, lines=4),
    Script("td3_priorities.py", (Fault.TREE,), on_cpu=True, lines=4),
    Script("grammar_decoder.py", (Fault.GRAMMAR,), on_cpu=True, lines=4),
    Script("amp_humanoid.py", (Fault.RECORDED,), on_cpu=True, lines=3),
    Script("dialogue_gc.py", (Fault.TIDIED,), on_cpu=True),
    Script("sac_snapshots.py", (Fault.KEPT,), on_cpu=True, lines=3),
    Script("tagger_trainer.py", (Fault.EXAMINED,), on_cpu=True, lines=3),
    Script("vae_warmup.py", (Fault.CONSTANT,), on_cpu=True, lines=3),
    Script("gan_histograms.py", (Fault.COUNTED,), on_cpu=True, lines=4),
    Script("reacher_vectors.py", (Fault.ONE_BY_ONE,), on_cpu=True, lines=4),
    Script("traffic_lights.py", (Fault.EACH_ALONE,), on_cpu=True, lines=3),
    Script("pipe_rollouts.py", (Fault.WAITED_FOR,), on_cpu=True, lines=3),
    Script("pair_faces_multitask.py", (Fault.UNAIDED, Fault.EXAMINED), on_cpu=True),
    Script("pair_novelty_population.py", (Fault.NOVELTY, Fault.TIDIED), on_cpu=True),
    Script("pair_drones_archive.py", (Fault.EACH_ALONE, Fault.KEPT), on_cpu=True),
    Script("pair_pendulums_gae.py", (Fault.ONE_BY_ONE, Fault.SUMS), on_cpu=True),
    Script("control_quick_flips.py", (), on_cpu=True),
    Script("control_tensor_walkers.py", (), on_cpu=True),
    Script("control_lightning_worker.py", (), on_cpu=True),
    Script("control_heartbeat.py", (), on_cpu=True),
    Script("control_early_stopping.py", (), on_cpu=True),
    Script("control_compiled_once.py", (), on_cpu=True),
    Script("control_async_envs.py", (), on_cpu=True),
    Script("control_char_bptt.py", (), on_cpu=True),
)
