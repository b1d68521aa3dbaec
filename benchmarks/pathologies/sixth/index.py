"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from enum import StrEnum

from second.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    PIPELINE_HERE = "a pipeline of generators in the training process"
    FEW_DECODERS = "few workers for much decoding"
    LATE_ANSWERS = "workers that wait for storage"
    DRAWING = "targets drawn in the collate function"
    EACH_EPOCH = "worker processes started anew for each epoch"
    HASHING = "text turned into numbers in every step"
    ADDING_UP = "replay added up in Python when it is sampled"
    TIDYING = "garbage collected by hand, with many objects alive"
    WRITING = "the state of the run written much too often"
    RANKING = "evaluations much too often"
    CONSTANT = "a number that the compiler takes for a constant"
    OWN_WORLD = "a world of Python objects stepped by the training thread"
    ALONE = "an inference for each of many players"
    WHOSE_TURN = "rollouts and updates that wait for each other"
    SHOWN = "a number shown after every step, which waits for the GPU"
    WEIGHT_BY_WEIGHT = "a loop of small kernels over all weights"
    WHOLE_FRAMES = "large blocking copies from pageable memory"
    OLD_BATCH = "a batch too small for the GPU"
    CAREFUL = "products that leave mixed precision"
    FRONT_END = "a front end that stayed on the CPU"
    EMPTIED = "the allocator's cache emptied again and again"
    AGEING = "many elementwise passes over large tensors"


SCRIPTS = (
    Script("ocr_lines.py", (Fault.PIPELINE_HERE,), on_cpu=True),
    Script("action_clips.py", (Fault.FEW_DECODERS,), on_cpu=True),
    Script("whale_calls.py", (Fault.LATE_ANSWERS,), on_cpu=True),
    Script("centers_detector.py", (Fault.DRAWING,), on_cpu=True),
    Script("folds_tabular.py", (Fault.EACH_EPOCH,), on_cpu=True),
    Script("hashed_bandit.py", (Fault.HASHING,), on_cpu=True),
    Script("offline_returns.py", (Fault.ADDING_UP,), on_cpu=True),
    Script("kg_embeddings.py", (Fault.TIDYING,), on_cpu=True),
    Script("depth_pickles.py", (Fault.WRITING,), on_cpu=True),
    Script("citations_gcn.py", (Fault.RANKING,), on_cpu=True),
    Script("annealed_gates.py", (Fault.CONSTANT,), on_cpu=True),
    Script("order_book.py", (Fault.OWN_WORLD,), on_cpu=True),
    Script("gomoku_selfplay.py", (Fault.ALONE,), on_cpu=True),
    Script("ponds_semaphores.py", (Fault.WHOSE_TURN,), on_cpu=True),
    Script("stereo_progress.py", (Fault.SHOWN,), on_cpu=False),
    Script("ema_profiles.py", (Fault.WEIGHT_BY_WEIGHT,), on_cpu=False),
    Script("flow_pairs.py", (Fault.WHOLE_FRAMES,), on_cpu=False),
    Script("protein_batch.py", (Fault.OLD_BATCH,), on_cpu=False, speed="samples_per_s"),
    Script("arcface_gallery.py", (Fault.CAREFUL,), on_cpu=False),
    Script("mel_frontend.py", (Fault.FRONT_END,), on_cpu=False),
    Script("pair_harbours_save.py", (Fault.PIPELINE_HERE, Fault.WRITING), on_cpu=True),
    Script("pair_manuscripts_eval.py", (Fault.LATE_ANSWERS, Fault.RANKING), on_cpu=True),
    Script("pair_bidders_save.py", (Fault.ALONE, Fault.WRITING), on_cpu=True),
    Script("pair_dialogue_gc.py", (Fault.HASHING, Fault.TIDYING), on_cpu=True),
    Script("pair_film_empty.py", (Fault.AGEING, Fault.EMPTIED), on_cpu=False),
    Script("pair_lion_eval.py", (Fault.WEIGHT_BY_WEIGHT, Fault.RANKING), on_cpu=False),
    Script("control_lanterns.py", (), on_cpu=True),
    Script("control_two_shapes.py", (), on_cpu=True),
    Script("control_adapters.py", (), on_cpu=True),
    Script("control_frozen_heap.py", (), on_cpu=True),
    Script("control_traffic.py", (), on_cpu=True),
    Script("control_scouts.py", (), on_cpu=True),
)
