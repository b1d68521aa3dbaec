"""Which cause each stand-alone script of `seventh/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "lanes_datamodule": "SK101",
    "plankton_photos": "SK102",
    "nowcast_keyvalue": "SK104",
    "tts_durations": "SK105",
    "denoise_cycle": "SK106",
    "reacher_priorities": "SK201",
    "motion_library": "SK201",
    "config_resolver": "SK201",
    "imagined_lives": "SK202",
    "superres_rotation": "SK203",
    "sprites_distance": "SK204",
    "crane_callback": "SK204",
    "sensor_dropout": "SK205",
    "telemetry_thread": "SK206",
    "gripper_wrappers": "SK301",
    "lidar_fleet": "SK301",
    "junctions_dict": "SK302",
    "walkers_remote": "SK303",
    "nan_guard": "SK401",
    "shelf_losses": "SK402",
    "sweeps_nested": "SK403",
    "sonar_microbatches": "SK404",
    "emulator_casts": "SK405",
    "vqvae_perceptual": "SK406",
    "heat_stencil": "SK409",
    "pair_chords_save": "SK105+SK203",
    "pair_dialects_epochs": "SK106+SK201",
    "pair_kites_eval": "SK301+SK204",
    "pair_beetles_snapshots": "SK303+SK203",
    "pair_scans_save": "SK403+SK203",
    "pair_tutors_free": "SK407+SK202",
    "control_persistent_epochs": "",
    "control_background_save": "",
    "control_late_metrics": "",
    "control_watchdog": "",
    "control_callbacks": "",
    "control_recommender": "",
}
ON_GPU_ONLY = frozenset(
    {
        "nan_guard", "shelf_losses", "sweeps_nested", "sonar_microbatches", "emulator_casts",
        "vqvae_perceptual", "heat_stencil", "pair_scans_save", "pair_tutors_free",
    }
)  # fmt: skip
