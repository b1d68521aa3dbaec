"""Which cause each stand-alone script of `fifteenth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "lane_frames": "SK101",
    "contrastive_views": "SK102",
    "aerial_segments": "SK103",
    "tile_denoiser": "SK104",
    "byte_pairs": "SK105",
    "few_shot_tasks": "SK106",
    "ocr_letters": "SK201",
    "td3_priorities": "SK201",
    "grammar_decoder": "SK201",
    "amp_humanoid": "SK201",
    "dialogue_gc": "SK202",
    "sac_snapshots": "SK203",
    "tagger_trainer": "SK204",
    "vae_warmup": "SK205",
    "gan_histograms": "SK206",
    "reacher_vectors": "SK301",
    "traffic_lights": "SK302",
    "pipe_rollouts": "SK303",
    "pair_faces_multitask": "SK101+SK204",
    "pair_novelty_population": "SK201+SK202",
    "pair_drones_archive": "SK302+SK203",
    "pair_pendulums_gae": "SK301+SK201",
    "control_quick_flips": "",
    "control_tensor_walkers": "",
    "control_lightning_worker": "",
    "control_heartbeat": "",
    "control_early_stopping": "",
    "control_compiled_once": "",
    "control_async_envs": "",
    "control_char_bptt": "",
}
ON_GPU_ONLY: frozenset[str] = frozenset()
