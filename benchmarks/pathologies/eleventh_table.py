"""Which cause each stand-alone script of `eleventh/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "coral_tiles": "SK101",
    "bats_ultrasound": "SK102",
    "muon_showers": "SK103",
    "glacier_pipes": "SK104",
    "syntax_trees": "SK105",
    "minerals_active": "SK106",
    "hotel_encodings": "SK201",
    "retro_synthesis": "SK202",
    "forklift_buffer": "SK203",
    "butterflies_knn": "SK204",
    "layerdrop_speech": "SK205",
    "dedup_shingles": "SK206",
    "marble_coroutines": "SK301",
    "backgammon_afterstates": "SK302",
    "quarry_barrier": "SK303",
    "autoclip_cardio": "SK401",
    "chebykan_stars": "SK402",
    "barlow_moths": "SK405",
    "probe_hooks": "SK408",
    "harmonic_vocoder": "SK409",
    "pair_lyrics_save": "SK201+SK203",
    "pair_drills_eval": "SK301+SK204",
    "pair_ants_epochs": "SK106+SK204",
    "pair_moons_empty": "SK406+SK407",
    "pair_quakes_gc": "SK403+SK202",
    "control_memmap_tokens": "",
    "control_zip_thread": "",
    "control_actor_ahead": "",
    "control_small_checks": "",
    "control_long_epochs": "",
    "control_tides": "",
}
ON_GPU_ONLY = frozenset(
    {
        "autoclip_cardio", "chebykan_stars", "barlow_moths", "probe_hooks", "harmonic_vocoder",
        "pair_moons_empty", "pair_quakes_gc",
    }
)  # fmt: skip
