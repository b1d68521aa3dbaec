"""Which cause each stand-alone script of `fifth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "cells_segmentation": "SK101",
    "genome_windows": "SK102",
    "mae_cores": "SK103",
    "turbine_stream": "SK104",
    "retrieval_negatives": "SK105",
    "fewshot_episodes": "SK106",
    "hindsight_td3": "SK201",
    "federated_rounds": "SK202",
    "diffusion_policy_keeper": "SK203",
    "multitask_heads": "SK204",
    "molecules_compiled": "SK205",
    "pixels_framestack": "SK301",
    "recurrent_ppo": "SK302",
    "dagger_pool": "SK303",
    "nerf_occupancy": "SK401",
    "smoothing_loop": "SK402",
    "mri_autoencoder": "SK403",
    "bilinear_birds": "SK405",
    "speech_criterion": "SK406",
    "weather_units": "SK409",
    "pair_code_eval": "SK105+SK204",
    "pair_rooms_save": "SK301+SK203",
    "pair_swarm_gc": "SK303+SK202",
    "pair_prompts_empty": "SK201+SK407",
    "pair_gestures_gpu_aug": "SK403+SK402",
    "control_gan": "",
    "control_lstm": "",
    "control_hoppers": "",
    "control_leaves": "",
    "control_thread": "",
    "control_speech": "",
}
ON_GPU_ONLY = frozenset(
    {
        "mae_cores", "nerf_occupancy", "smoothing_loop", "mri_autoencoder", "bilinear_birds",
        "speech_criterion", "weather_units", "pair_prompts_empty", "pair_gestures_gpu_aug",
    }
)  # fmt: skip
