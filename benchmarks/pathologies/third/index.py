"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from enum import StrEnum

from second.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    FEW_WORKERS = "too few workers for what a sample costs"
    MAIN_PROCESS = "batches made by the training process"
    NO_CORE_LEFT = "loading needs more cores than there are"
    LATE_STORAGE = "reads that wait for a mount"
    SLOW_COLLATE = "a collate function that sorts for long"
    NEW_WORKERS = "new workers at every short epoch"
    BLOCKING_COPY = "large blocking copies from pageable memory"
    READ_BACK = "losses read from the GPU in every step"
    HIDDEN_WAIT = "an `if` on a GPU tensor in every step"
    TINY_KERNELS = "an ensemble in a Python loop of small kernels"
    HOT_LINE = "Python that counts in the loop"
    LIST_INPUT = "tensors made from Python lists in every step"
    PYTHON_REPLAY = "replay drawn by a Python tree"
    PREVIEWS = "pictures compressed in every step"
    COLLECTION = "garbage collected by hand"
    CHECKPOINTS = "checkpoints too often"
    EVALUATION = "evaluation too often"
    SERIAL_ENVS = "environments stepped by the training thread"
    SINGLE_INFERENCE = "one inference for each environment"
    FP32 = "fp32 products without tensor cores"
    MEMORY_BOUND = "elementwise kernels bound by memory"
    EMPTY_CACHE = "the allocator's cache emptied between micro-batches"
    CPU_TEACHER = "a teacher network left on the CPU"


SCRIPTS = (
    Script("unet_workers.py", (Fault.FEW_WORKERS,), on_cpu=True),
    Script("simclr_main.py", (Fault.MAIN_PROCESS,), on_cpu=True),
    Script("vit_cores.py", (Fault.NO_CORE_LEFT,), on_cpu=False),
    Script("lstm_mount.py", (Fault.LATE_STORAGE,), on_cpu=True),
    Script("captions_collate.py", (Fault.SLOW_COLLATE,), on_cpu=True),
    Script("audio_epochs.py", (Fault.NEW_WORKERS,), on_cpu=True),
    Script("video_copy.py", (Fault.BLOCKING_COPY,), on_cpu=False),
    Script("diffusion_resampler.py", (Fault.READ_BACK,), on_cpu=False),
    Script("detector_if.py", (Fault.HIDDEN_WAIT,), on_cpu=False),
    Script("redq_ensemble.py", (Fault.TINY_KERNELS,), on_cpu=False),
    Script("lm_ngrams.py", (Fault.HOT_LINE,), on_cpu=True),
    Script("selfplay_gc.py", (Fault.COLLECTION,), on_cpu=True),
    Script("autoencoder_ema.py", (Fault.CHECKPOINTS,), on_cpu=True),
    Script("dcgan_previews.py", (Fault.PREVIEWS,), on_cpu=True),
    Script("sac_vector_env.py", (Fault.SERIAL_ENVS,), on_cpu=True),
    Script("dqn_cartpoles.py", (Fault.SINGLE_INFERENCE,), on_cpu=True),
    Script("tabular_fp32.py", (Fault.FP32,), on_cpu=False),
    Script("colour_chain.py", (Fault.MEMORY_BOUND,), on_cpu=False),
    Script("accumulate_empty_cache.py", (Fault.EMPTY_CACHE,), on_cpu=False),
    Script("distill_teacher.py", (Fault.CPU_TEACHER,), on_cpu=False),
    Script("pair_lists_eval.py", (Fault.LIST_INPUT, Fault.EVALUATION), on_cpu=True),
    Script("pair_replay_save.py", (Fault.PYTHON_REPLAY, Fault.CHECKPOINTS), on_cpu=True),
    Script("pair_inference_gc.py", (Fault.SINGLE_INFERENCE, Fault.COLLECTION), on_cpu=True),
    Script("pair_fp32_series.py", (Fault.MEMORY_BOUND, Fault.FP32), on_cpu=False),
    Script("control_convnext.py", (), on_cpu=True),
    Script("control_lm.py", (), on_cpu=True),
    Script("control_swing.py", (), on_cpu=True),
    Script("control_wgan.py", (), on_cpu=True),
    Script("control_accumulate.py", (), on_cpu=True),
)
