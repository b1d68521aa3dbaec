"""Which cause each stand-alone script of `second/` holds: its file's name without `.py`, and what is right.

`"SK201"` one cause; `"SK101|SK102"` either is right; `"SK101+SK401"` two faults at once; `""` healthy.
Filled in after the scripts were written and before they were scored, by somebody who knows the codes; the
scripts' author does not. Two answers are right where a script's own words say so (`small_batch`), and for a
home-grown simulator, which is an environment only to who reads the script: its line is what counts.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {
    "few_workers": "SK102",
    "main_process": "SK101",
    "slow_disk": "SK104",
    "slow_collate": "SK105",
    "short_epochs": "SK106",
    "pageable_copy": "SK403",
    "item_sync": "SK401",
    "tiny_kernels": "SK402",
    "python_lists": "SK201",
    "cyclic_garbage": "SK202",
    "checkpoint_often": "SK203",
    "eval_often": "SK204",
    "gym_serial": "SK301",
    "own_sim": "SK301|SK201",
    "one_by_one": "SK302",
    "turns": "SK303",
    "cpu_replay": "SK201",
    "small_batch": "SK404|SK402",
    "fp32_math": "SK405",
    "elementwise": "SK409",
    "recompile": "SK205",
    "empty_cache": "SK407",
    "embedding_on_cpu": "SK406",
    "two_loader_save": "SK102+SK203",
    "two_env_lists": "SK301|SK201+SK201",
    "control_gpt": "",
    "control_loader": "",
    "control_ppo": "",
}
ON_GPU_ONLY = frozenset(
    {
        "pageable_copy", "item_sync", "tiny_kernels", "small_batch", "fp32_math", "elementwise",
        "empty_cache", "embedding_on_cpu",
    }
)  # fmt: skip
ON_CPU_ONLY: frozenset[str] = frozenset()
