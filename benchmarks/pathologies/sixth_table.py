"""Which cause each stand-alone script of `sixth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "ocr_lines": "SK101",
    "action_clips": "SK102",
    "whale_calls": "SK104",
    "centers_detector": "SK105",
    "folds_tabular": "SK106",
    "hashed_bandit": "SK201",
    "offline_returns": "SK201",
    "kg_embeddings": "SK202",
    "depth_pickles": "SK203",
    "citations_gcn": "SK204",
    "annealed_gates": "SK205",
    "order_book": "SK301",
    "gomoku_selfplay": "SK302",
    "ponds_semaphores": "SK303",
    "stereo_progress": "SK401",
    "ema_profiles": "SK402",
    "flow_pairs": "SK403",
    "protein_batch": "SK404",
    "arcface_gallery": "SK405",
    "mel_frontend": "SK406",
    "pair_harbours_save": "SK101+SK203",
    "pair_manuscripts_eval": "SK104+SK204",
    "pair_bidders_save": "SK302+SK203",
    "pair_dialogue_gc": "SK201+SK202",
    "pair_film_empty": "SK409+SK407",
    "pair_lion_eval": "SK402+SK204",
    "control_lanterns": "",
    "control_two_shapes": "",
    "control_adapters": "",
    "control_frozen_heap": "",
    "control_traffic": "",
    "control_scouts": "",
}
ON_GPU_ONLY = frozenset(
    {
        "stereo_progress", "ema_profiles", "flow_pairs", "protein_batch", "arcface_gallery", "mel_frontend",
        "pair_film_empty", "pair_lion_eval",
    }
)  # fmt: skip
