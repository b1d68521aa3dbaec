"""The scripts of the first half: where each is, what it holds, and on which devices it makes sense.

Nothing is imported here: the runner reads this table, and torch takes ten seconds to import on some machines.
"""

from __future__ import annotations

EVERYWHERE, ON_GPU, ON_CPU = ("cpu", "cuda"), ("cuda",), ("cpu",)
Entry = tuple[str, str, tuple[str, ...]]
"""Module and function; the cause or causes that should be named; devices."""

FAULTS: dict[str, Entry] = {
    "main_loading": ("faults_input.main_loading", "SK101", EVERYWHERE),
    "few_workers": ("faults_input.few_workers", "SK102", EVERYWHERE),
    "no_cores": ("faults_input.no_cores", "SK103", EVERYWHERE),
    "storage": ("faults_input.storage", "SK104", EVERYWHERE),
    "collate": ("faults_input.collate", "SK105", EVERYWHERE),
    "restart": ("faults_input.restart", "SK106", EVERYWHERE),
    "hot_line": ("faults_host.hot_line", "SK201", EVERYWHERE),
    "lists": ("faults_host.lists", "SK201", EVERYWHERE),
    "replay": ("faults_rl.replay", "SK201", EVERYWHERE),
    "collector": ("faults_host.collector", "SK202", EVERYWHERE),
    "saving": ("faults_host.saving", "SK203", EVERYWHERE),
    "evaluating": ("faults_host.evaluating", "SK204", EVERYWHERE),
    "recompiling": ("faults_host.recompiling", "SK205", EVERYWHERE),
    "thread": ("faults_host.thread", "SK206", ON_CPU),  # on an H200 it costs nothing: 48 large kernels a tick
    "serial_env": ("faults_rl.serial_env", "SK301", EVERYWHERE),
    "one_by_one": ("faults_rl.one_by_one", "SK302", EVERYWHERE),
    "turns": ("faults_rl.turns", "SK303", EVERYWHERE),
    "sync_storm": ("faults_gpu.sync_storm", "SK401", ON_GPU),
    "implicit_sync": ("faults_gpu.implicit_sync", "SK401", ON_GPU),
    "launch_bound": ("faults_gpu.launch_bound", "SK402", ON_GPU),
    "pageable": ("faults_gpu.pageable", "SK403", ON_GPU),
    "small_batch": ("faults_gpu.small_batch", "SK404", ON_GPU),
    "tensor_off": ("faults_gpu.tensor_off", "SK405", ON_GPU),
    "cpu_part": ("faults_gpu.cpu_part", "SK406", ON_GPU),
    "thrash": ("faults_gpu.thrash", "SK407", ON_GPU),
    "leak": ("faults_gpu.leak", "SK408", ON_GPU),
    "dram_chain": ("faults_gpu.dram_chain", "SK409", ON_GPU),
    "card_neighbour": ("faults_card.card_neighbour", "SK501", ON_GPU),
    "straggler": ("faults_host.straggler", "SK503", ON_CPU),
    "neighbours": ("faults_host.neighbours", "SK504", ON_CPU),
}
PAIRS: dict[str, Entry] = {
    "loading_and_python": ("pairs.loading_and_python", "SK101+SK201", EVERYWHERE),
    "env_and_collector": ("pairs.env_and_collector", "SK301+SK202", EVERYWHERE),
    "storage_and_saving": ("pairs.storage_and_saving", "SK104+SK203", EVERYWHERE),
    "collate_and_collector": ("pairs.collate_and_collector", "SK105+SK202", EVERYWHERE),
    "loading_and_reads": ("pairs.loading_and_reads", "SK102+SK401", ON_GPU),
}
CONTROLS: dict[str, Entry] = {
    "plain": ("controls.plain", "", EVERYWHERE),
    "hidden_loader": ("controls.hidden_loader", "", EVERYWHERE),
    "hidden_host": ("controls.hidden_host", "", ON_GPU),
    "on_policy": ("controls.on_policy", "", EVERYWHERE),
    "convolution": ("controls.convolution", "", EVERYWHERE),
    "transformer": ("controls.transformer", "", EVERYWHERE),
    "graphed": ("controls.graphed", "", ON_GPU),
    "gpu_env": ("controls.gpu_env", "", ON_GPU),
}
ALL = {**FAULTS, **PAIRS, **CONTROLS}
