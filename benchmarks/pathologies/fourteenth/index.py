"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `ninth/`, where several lines may be marked.
"""

from __future__ import annotations

from enum import StrEnum

from ninth.index import MARKER, Script

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    UNSAID = "loading by the training thread"
    ONE_ONLY = "one worker, while there is room for another"
    WHOLE_PLATES = "a worker on every core, and too much work for each sample"
    FAR_STORE = "reads that wait for a store far away"
    SEARCHED = "distances searched one by one in the collate function"
    NEWEST = "workers started anew for each short epoch"
    LISTS = "lists of Python made before each forward pass"
    TERMS = "rewards from small functions, robot by robot"
    TEXTS = "texts tidied, scored and written in every step"
    CLEARED = "garbage collected by hand, with many objects alive"
    WRITTEN = "checkpoints much too often"
    MEASURED = "evaluations much too often"
    SORTED = "a thread of plain Python beside the training"
    DRIVEN_HERE = "environments stepped by the training thread"
    COMPARED = "results compared by Python, each with all others"
    ASKED_ALONE = "an inference for each of many agents"
    BY_TURNS = "rollouts in a process and updates that wait for each other"


SCRIPTS = (
    Script("radar_nowcast.py", (Fault.UNSAID,), on_cpu=True, lines=2),
    Script("keyword_spotting.py", (Fault.UNSAID,), on_cpu=True, lines=3),
    Script("click_logs.py", (Fault.ONE_ONLY,), on_cpu=True),
    Script("spore_microscopy.py", (Fault.WHOLE_PLATES,), on_cpu=True, lines=2),
    Script("ocean_buoys.py", (Fault.FAR_STORE,), on_cpu=True, lines=2),
    Script("seismic_traces.py", (Fault.FAR_STORE,), on_cpu=True, lines=2),
    Script("molecule_paths.py", (Fault.SEARCHED,), on_cpu=True, lines=3),
    Script("news_titles.py", (Fault.NEWEST,), on_cpu=True, lines=2),
    Script("session_recs.py", (Fault.LISTS,), on_cpu=True, lines=2),
    Script("quadruped_reward.py", (Fault.TERMS,), on_cpu=True, lines=4),
    Script("caption_scores.py", (Fault.TEXTS,), on_cpu=True, lines=3),
    Script("federated_wards.py", (Fault.CLEARED,), on_cpu=True),
    Script("vocoder_archive.py", (Fault.WRITTEN,), on_cpu=True, lines=2),
    Script("rainfall_regions.py", (Fault.MEASURED,), on_cpu=True, lines=2),
    Script("log_anomaly.py", (Fault.SORTED,), on_cpu=True, lines=4),
    Script("warehouse_carts.py", (Fault.DRIVEN_HERE,), on_cpu=True, lines=4),
    Script("pair_crops_archive.py", (Fault.UNSAID, Fault.WRITTEN), on_cpu=True),
    Script("pair_bees_flowers.py", (Fault.ASKED_ALONE, Fault.CLEARED), on_cpu=True),
    Script("pair_locks_barges.py", (Fault.DRIVEN_HERE, Fault.MEASURED), on_cpu=True),
    Script("pair_sails_ranks.py", (Fault.BY_TURNS, Fault.COMPARED), on_cpu=True),
    Script("control_tide_gauges.py", (), on_cpu=True),
    Script("control_citations.py", (), on_cpu=True),
    Script("control_parcel_sizes.py", (), on_cpu=True),
    Script("control_exam_answers.py", (), on_cpu=True),
    Script("control_wind_turbines.py", (), on_cpu=True),
    Script("control_greenhouse_watch.py", (), on_cpu=True),
    Script("control_choir_voices.py", (), on_cpu=True),
    Script("control_loan_table.py", (), on_cpu=True),
)
