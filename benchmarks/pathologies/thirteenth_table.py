"""Which cause each stand-alone script of `thirteenth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "orchids_debug": "SK101",
    "smoke_towers": "SK102",
    "pulsars_blocks": "SK104",
    "baskets_collate": "SK105",
    "levels_replay": "SK201",
    "herbs_guard": "SK202",
    "volcano_keeper": "SK203",
    "accents_interval": "SK204",
    "voices_tag": "SK205",
    "subtitles_aligner": "SK206",
    "locks_gather": "SK301",
    "dispatch_events": "SK302",
    "fields_hardest": "SK401",
    "lagoon_mixture": "SK402",
    "orchard_strips": "SK403",
    "mosaics_zca": "SK405",
    "tapestry_export": "SK406",
    "frescoes_chunks": "SK407",
    "lichens_queue": "SK408",
    "film_tones": "SK409",
    "pair_posters_epochs": "SK106+SK405",
    "pair_trams_eval": "SK303+SK204",
    "pair_falcons_lamps": "SK302+SK409",
    "pair_dunes_penalty": "SK402+SK203",
    "pair_gondolas_lesson": "SK301+SK205",
    "control_drift_alarm": "",
    "control_small_copies": "",
    "control_one_worker": "",
    "control_late_buoys": "",
    "control_two_slides": "",
    "control_auroras": "",
}
ON_GPU_ONLY = frozenset(
    {
        "fields_hardest", "lagoon_mixture", "orchard_strips", "mosaics_zca", "tapestry_export",
        "frescoes_chunks", "lichens_queue", "film_tones", "pair_posters_epochs", "pair_falcons_lamps",
        "pair_dunes_penalty",
    }
)  # fmt: skip
