"""Which cause each stand-alone script of `twelfth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "kelp_survey": "SK101",
    "whales_tapers": "SK102",
    "receipts_ocr": "SK103",
    "gauges_http": "SK104",
    "crystals_collate": "SK105",
    "seeds_crossval": "SK106",
    "glider_returns": "SK201",
    "glyphs_temperature": "SK205",
    "league_ratings": "SK206",
    "tugboats_ddpg": "SK301",
    "parcels_pipes": "SK303",
    "hovercraft_dones": "SK401",
    "smog_lion": "SK402",
    "neuron_cubes": "SK403",
    "masked_residues": "SK404",
    "chorales_head": "SK405",
    "kilns_experts": "SK406",
    "aurora_latents": "SK407",
    "caves_novelty": "SK408",
    "frogs_heatmaps": "SK409",
    "pair_clinic_save": "SK101+SK203",
    "pair_ferries_gc": "SK302+SK202",
    "pair_rovers_fp32": "SK301+SK405",
    "pair_rivers_eval": "SK402+SK204",
    "pair_pipes_empty": "SK403+SK407",
    "control_ram_batches": "",
    "control_late_loss": "",
    "control_python_beside": "",
    "control_tiny_heads": "",
    "control_patient_collate": "",
    "control_tensor_envs": "",
}
ON_GPU_ONLY = frozenset(
    {
        "hovercraft_dones", "smog_lion", "neuron_cubes", "masked_residues", "chorales_head", "kilns_experts",
        "aurora_latents", "caves_novelty", "frogs_heatmaps", "pair_rovers_fp32", "pair_rivers_eval",
        "pair_pipes_empty",
    }
)  # fmt: skip
