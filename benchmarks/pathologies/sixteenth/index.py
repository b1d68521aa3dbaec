"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `ninth/`, where several lines may be marked.
"""

from __future__ import annotations

from enum import StrEnum

from ninth.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    CHAIN = "a chain of generators that loads in the training thread"
    CHUNKS = "reads that wait for a store behind a socket"
    THINNED = "points thinned one by one in the collate function"
    PASSES = "workers started anew for each pass over a fold"
    TABLES = "tables of an autograd function filled in Python, cell by cell"
    BITS = "bits counted by an optimizer, value by value"
    ROOM = "garbage collected by hand, with many objects alive"
    SNAPSHOTS = "checkpoints much too often, and waited for"
    LOOKED_AT = "evaluations much too often"
    SHAPES = "a compiled module that gets new shapes again and again"
    LADDER = "a thread of plain Python beside the training"
    MARCHED = "environments stepped by the training thread"
    LEAVES = "an inference for each of many games"
    WARPED = "loading by the training thread"
    MATCHED = "boxes matched in Python"
    ONE_EACH = "an inference for each of many environments"
    HINDSIGHT = "goals drawn from dictionaries of Python"
    TURNS = "rollouts in a process and updates that wait for each other"


SCRIPTS = (
    Script("tar_spectra.py", (Fault.CHAIN,), on_cpu=True, lines=3),
    Script("dt_shards.py", (Fault.CHUNKS,), on_cpu=True, lines=3),
    Script("ragged_clouds.py", (Fault.THINNED,), on_cpu=True, lines=3),
    Script("harvest_folds.py", (Fault.PASSES,), on_cpu=True, lines=3),
    Script("soft_dtw.py", (Fault.TABLES,), on_cpu=True, lines=4),
    Script("federated_bytes.py", (Fault.BITS,), on_cpu=True, lines=4),
    Script("graph_triples.py", (Fault.ROOM,), on_cpu=True, lines=2),
    Script("dream_snapshots.py", (Fault.SNAPSHOTS,), on_cpu=True, lines=4),
    Script("heat_residuals.py", (Fault.LOOKED_AT,), on_cpu=True, lines=2),
    Script("flow_events.py", (Fault.SHAPES,), on_cpu=True, lines=3),
    Script("hex_ladder.py", (Fault.LADDER,), on_cpu=True, lines=5),
    Script("warehouse_lidar.py", (Fault.MARCHED,), on_cpu=True, lines=4),
    Script("search_leaves.py", (Fault.LEAVES,), on_cpu=True, lines=3),
    Script("pair_flow_scenes.py", (Fault.WARPED, Fault.SNAPSHOTS), on_cpu=True),
    Script("pair_anchor_boxes.py", (Fault.MATCHED, Fault.LOOKED_AT), on_cpu=True),
    Script("pair_hindsight_cranes.py", (Fault.ONE_EACH, Fault.HINDSIGHT), on_cpu=True),
    Script("pair_songs_negatives.py", (Fault.LADDER, Fault.WARPED), on_cpu=True),
    Script("pair_curious_mazes.py", (Fault.ROOM, Fault.TURNS), on_cpu=True),
    Script("pair_dagger_karts.py", (Fault.MARCHED, Fault.LOOKED_AT), on_cpu=True),
    Script("control_thread_stream.py", (), on_cpu=True),
    Script("control_population.py", (), on_cpu=True),
    Script("control_quiet_hooks.py", (), on_cpu=True),
    Script("control_bucket_sampler.py", (), on_cpu=True),
    Script("control_score_average.py", (), on_cpu=True),
    Script("control_sb3_tanks.py", (), on_cpu=True),
    Script("control_compiled_buckets.py", (), on_cpu=True),
)
