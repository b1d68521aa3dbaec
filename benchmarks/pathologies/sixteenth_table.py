"""Which cause each stand-alone script of `sixteenth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "tar_spectra": "SK101",
    "dt_shards": "SK104",
    "ragged_clouds": "SK105",
    "harvest_folds": "SK106",
    "soft_dtw": "SK201",
    "federated_bytes": "SK201",
    "graph_triples": "SK202",
    "dream_snapshots": "SK203",
    "heat_residuals": "SK204",
    "flow_events": "SK205",
    "hex_ladder": "SK206",
    "warehouse_lidar": "SK301",
    "search_leaves": "SK302",
    "pair_flow_scenes": "SK101+SK203",
    "pair_anchor_boxes": "SK201+SK204",
    "pair_hindsight_cranes": "SK302+SK201",
    "pair_songs_negatives": "SK206+SK101",
    "pair_curious_mazes": "SK202+SK303",
    "pair_dagger_karts": "SK301+SK204",
    "control_thread_stream": "",
    "control_population": "",
    "control_quiet_hooks": "",
    "control_bucket_sampler": "",
    "control_score_average": "",
    "control_sb3_tanks": "",
    "control_compiled_buckets": "",
}
ON_GPU_ONLY: frozenset[str] = frozenset()
