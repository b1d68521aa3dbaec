"""Which cause each stand-alone script of `tenth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "ships_copypaste": "SK101",
    "ecg_workers": "SK102",
    "pillars_collate": "SK105",
    "ncf_negatives": "SK201",
    "margins_compiled": "SK205",
    "hover_sync": "SK301",
    "greenhouse_agents": "SK302",
    "rockets_executor": "SK303",
    "kl_schedule": "SK401",
    "speech_lengths": "SK401",
    "tagger_crf": "SK402",
    "arms_kinematics": "SK402",
    "tomography_rows": "SK403",
    "two_towers_split": "SK404",
    "kpconv_legacy": "SK405",
    "latent_upcast": "SK405",
    "prompts_offload": "SK406",
    "ice_guard": "SK407",
    "curious_memory": "SK408",
    "chamfer_broadcast": "SK409",
    "pair_ferries_gc": "SK302+SK202",
    "pair_melodies_gc": "SK406+SK202",
    "pair_dunes_save": "SK409+SK203",
    "pair_echoes_eval": "SK403+SK204",
    "pair_alloys_empty": "SK405+SK407",
    "control_style": "",
    "control_scaler": "",
    "control_frames_ahead": "",
    "control_exact_islands": "",
    "control_filling_replay": "",
    "control_short_chain": "",
}
ON_GPU_ONLY = frozenset(
    {
        "kl_schedule", "speech_lengths", "tagger_crf", "arms_kinematics", "tomography_rows",
        "two_towers_split", "kpconv_legacy", "latent_upcast", "prompts_offload", "ice_guard",
        "curious_memory", "chamfer_broadcast", "pair_melodies_gc", "pair_dunes_save", "pair_echoes_eval",
        "pair_alloys_empty",
    }
)  # fmt: skip
