"""Which cause each stand-alone script of `eighth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "signs_numpy": "SK101",
    "sketch_strokes": "SK102",
    "clone_video": "SK104",
    "tts_priors": "SK105",
    "dreams_loader": "SK106",
    "sac_priorities": "SK201",
    "automaton_damage": "SK205",
    "crowd_dashboard": "SK206",
    "harvest_qmix": "SK301",
    "barrier_hunters": "SK303",
    "legged_mimic": "SK401",
    "lane_anchors": "SK401",
    "track_points": "SK402",
    "learned_optimizer": "SK402",
    "satellite_changes": "SK403",
    "slide_heads": "SK404",
    "superres_perceptual": "SK405",
    "gait_style": "SK406",
    "mae_peaks": "SK407",
    "forced_flow": "SK409",
    "pair_taxis_eval": "SK302+SK204",
    "pair_mazes_gc": "SK301+SK202",
    "pair_codes_save": "SK405+SK203",
    "pair_clouds_eval": "SK409+SK204",
    "pair_trees_empty": "SK402+SK407",
    "pair_slices_windows": "SK403+SK205",
    "control_walkers": "",
    "control_late_reads": "",
    "control_kites": "",
    "control_masks": "",
    "control_heartbeat": "",
    "control_parcels": "",
}
ON_GPU_ONLY = frozenset(
    {
        "legged_mimic", "lane_anchors", "track_points", "learned_optimizer", "satellite_changes",
        "slide_heads", "superres_perceptual", "gait_style", "mae_peaks", "forced_flow", "pair_codes_save",
        "pair_clouds_eval", "pair_trees_empty", "pair_slices_windows",
    }
)  # fmt: skip
