"""Which cause each stand-alone script of `fourteenth/` holds, written as in `second_table`.

Filled in with the scripts, before they were scored, by their author, who knows the codes and short titles of
the causes and none of the rules. No script has two right answers.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "radar_nowcast": "SK101",
    "keyword_spotting": "SK101",
    "click_logs": "SK102",
    "spore_microscopy": "SK103",
    "ocean_buoys": "SK104",
    "seismic_traces": "SK104",
    "molecule_paths": "SK105",
    "news_titles": "SK106",
    "session_recs": "SK201",
    "quadruped_reward": "SK201",
    "caption_scores": "SK201",
    "federated_wards": "SK202",
    "vocoder_archive": "SK203",
    "rainfall_regions": "SK204",
    "log_anomaly": "SK206",
    "warehouse_carts": "SK301",
    "pair_crops_archive": "SK101+SK203",
    "pair_bees_flowers": "SK302+SK202",
    "pair_locks_barges": "SK301+SK204",
    "pair_sails_ranks": "SK303+SK201",
    "control_tide_gauges": "",
    "control_citations": "",
    "control_parcel_sizes": "",
    "control_exam_answers": "",
    "control_wind_turbines": "",
    "control_greenhouse_watch": "",
    "control_choir_voices": "",
    "control_loan_table": "",
}
ON_GPU_ONLY: frozenset[str] = frozenset()
