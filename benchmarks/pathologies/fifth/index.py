"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from enum import StrEnum

from second.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    OWN_LOADING = "a loader without workers, by a config's default"
    TWO_WORKERS = "two workers, by a data module's default"
    ALL_CORES = "a transform that uses up all cores"
    SLOW_PIPE = "workers that wait for a slow transfer"
    NEGATIVES = "a slow search in the collate function"
    NEW_ROUNDS = "worker processes started anew for each round of episodes"
    RELABELLING = "replay relabelled by plain Python"
    COLLECTING = "garbage collected by hand, with many objects alive"
    KEEPING = "checkpoints much too often"
    REPORTING = "evaluations much too often"
    LAST_BATCH = "a new shape to compile for at the end of each pass"
    STEPPED_HERE = "environments stepped one by one by the training thread"
    OWN_MEMORIES = "an inference for each agent, as each has a memory"
    IN_TURNS = "rollouts and updates that wait for each other"
    MASKED = "an index by a mask, which waits for the GPU"
    DAY_BY_DAY = "a loop of small kernels"
    ORDINARY_MEMORY = "large blocking copies from pageable memory"
    EXACT = "products that ask for fp32"
    CRITERION = "a criterion that stayed on the CPU"
    EMPTIED = "the allocator's cache emptied again and again"
    UNITS = "many elementwise passes over large tensors"
    COUNTING = "words counted in Python in every step"


SCRIPTS = (
    Script("cells_segmentation.py", (Fault.OWN_LOADING,), on_cpu=True),
    Script("genome_windows.py", (Fault.TWO_WORKERS,), on_cpu=True),
    Script("mae_cores.py", (Fault.ALL_CORES,), on_cpu=False),
    Script("turbine_stream.py", (Fault.SLOW_PIPE,), on_cpu=True),
    Script("retrieval_negatives.py", (Fault.NEGATIVES,), on_cpu=True),
    Script("fewshot_episodes.py", (Fault.NEW_ROUNDS,), on_cpu=True),
    Script("hindsight_td3.py", (Fault.RELABELLING,), on_cpu=True),
    Script("federated_rounds.py", (Fault.COLLECTING,), on_cpu=True),
    Script("diffusion_policy_keeper.py", (Fault.KEEPING,), on_cpu=True),
    Script("multitask_heads.py", (Fault.REPORTING,), on_cpu=True),
    Script("molecules_compiled.py", (Fault.LAST_BATCH,), on_cpu=True),
    Script("pixels_framestack.py", (Fault.STEPPED_HERE,), on_cpu=True),
    Script("recurrent_ppo.py", (Fault.OWN_MEMORIES,), on_cpu=True),
    Script("dagger_pool.py", (Fault.IN_TURNS,), on_cpu=True),
    Script("nerf_occupancy.py", (Fault.MASKED,), on_cpu=False),
    Script("smoothing_loop.py", (Fault.DAY_BY_DAY,), on_cpu=False),
    Script("mri_autoencoder.py", (Fault.ORDINARY_MEMORY,), on_cpu=False),
    Script("bilinear_birds.py", (Fault.EXACT,), on_cpu=False),
    Script("speech_criterion.py", (Fault.CRITERION,), on_cpu=False),
    Script("weather_units.py", (Fault.UNITS,), on_cpu=False),
    Script("pair_code_eval.py", (Fault.NEGATIVES, Fault.REPORTING), on_cpu=True),
    Script("pair_rooms_save.py", (Fault.STEPPED_HERE, Fault.KEEPING), on_cpu=True),
    Script("pair_swarm_gc.py", (Fault.IN_TURNS, Fault.COLLECTING), on_cpu=True),
    Script("pair_prompts_empty.py", (Fault.COUNTING, Fault.EMPTIED), on_cpu=False),
    Script("pair_gestures_gpu_aug.py", (Fault.ORDINARY_MEMORY, Fault.DAY_BY_DAY), on_cpu=False),
    Script("control_gan.py", (), on_cpu=True),
    Script("control_lstm.py", (), on_cpu=True),
    Script("control_hoppers.py", (), on_cpu=True),
    Script("control_leaves.py", (), on_cpu=True),
    Script("control_thread.py", (), on_cpu=True),
    Script("control_speech.py", (), on_cpu=True),
)
