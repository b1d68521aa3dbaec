"""Every knob Stoker can turn by itself, in one list, and what common names of settings mean."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from stoker.trials.knobs.knob import Channel, Kind, Knob, Scope, ValueType

_EXACT, _NUMERIC, _DYNAMICS = Kind.EXACT, Kind.NUMERIC, Kind.DYNAMICS
_WHOLE, _SWITCH, _CHOICE = ValueType.INTEGER, ValueType.SWITCH, ValueType.CHOICE
_LOADER, _MODEL, _OPTIMIZER, _PROCESS = Scope.LOADER, Scope.MODEL, Scope.OPTIMIZER, Scope.PROCESS
SWITCH = ("on", "off")
COMPILE = ("inductor", "reduce-overhead", "max-autotune", "eager", "aot_eager", "off")


def _runtime(
    name: str,
    type: ValueType,
    kind: Kind,
    scope: Scope,
    about: str,
    shown_by: str,
    words: tuple[str, ...] = (),
) -> Knob:
    return Knob(name, Channel.RUNTIME, type, kind, scope, shown_by, about, words)


RUNTIME: tuple[Knob, ...] = (
    _runtime("num_workers", _WHOLE, _EXACT, _LOADER, "processes that load data", "workers of the loaders"),
    _runtime(
        "prefetch_factor", _WHOLE, _EXACT, _LOADER, "batches each worker keeps ready", "the loaders' factor"
    ),
    _runtime(
        "persistent_workers", _CHOICE, _EXACT, _LOADER, "workers live through epochs", "the loaders", ("on",)
    ),
    _runtime("pin_memory", _SWITCH, _EXACT, _LOADER, "batches in page-locked memory", "the loaders", SWITCH),
    _runtime(
        "non_blocking",
        _CHOICE,
        _EXACT,
        _PROCESS,
        "copies of a loader's pinned batches to the GPU do not wait",
        "copies made so",
        ("on",),
    ),
    _runtime("threads", _WHOLE, _NUMERIC, _PROCESS, "torch's threads on the CPU", "torch.get_num_threads()"),
    _runtime("tf32", _SWITCH, _NUMERIC, _PROCESS, "TF32 in matrix products", "torch's setting", SWITCH),
    _runtime(
        "bf16", _SWITCH, _NUMERIC, _MODEL, "bfloat16 autocast around the model", "calls made so", SWITCH
    ),
    _runtime(
        "channels_last", _SWITCH, _NUMERIC, _MODEL, "images and weights with channels last", "models", SWITCH
    ),
    _runtime("fused", _SWITCH, _NUMERIC, _OPTIMIZER, "fused optimizer steps", "the optimizers", SWITCH),
    _runtime(
        "compile", _CHOICE, _NUMERIC, _MODEL, "torch.compile of the models, in place", "frames", COMPILE
    ),
    _runtime(
        "cudnn_benchmark", _SWITCH, _NUMERIC, _PROCESS, "cuDNN tries its algorithms", "the setting", SWITCH
    ),
    _runtime(
        "block_shuffle",
        _WHOLE,
        _DYNAMICS,
        _LOADER,
        "shuffle blocks of so many neighbours, not single samples",
        "orders drawn so",
    ),
    _runtime(
        "allocator",
        _CHOICE,
        _EXACT,
        _PROCESS,
        "torch's GPU allocator grows its segments",
        "the variable in the process",
        ("expandable",),
    ),
    _runtime(
        "nccl",
        _CHOICE,
        _EXACT,
        _PROCESS,
        "NCCL without P2P, InfiniBand and cuMem, for cards that hang in it",
        "the variables in a process that uses NCCL",
        ("safe",),
    ),
)

VARIABLES: Mapping[str, Mapping[str, str]] = {
    "allocator": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "nccl": {
        "NCCL_P2P_DISABLE": "1",
        "NCCL_IB_DISABLE": "1",
        "NCCL_CUMEM_ENABLE": "0",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    },
}
"""Runtime knobs that are variables: read by libraries at their start, so they are set before the process."""

MEANINGS: Mapping[str, tuple[str, ...]] = {
    "num_workers": ("num_workers", "workers", "data_workers", "loader_workers", "n_workers", "nw"),
    "prefetch_factor": ("prefetch_factor", "prefetch"),
    "pin_memory": ("pin_memory", "pin_mem"),
    "persistent_workers": ("persistent_workers",),
    "batch": ("batch_size", "batch", "bs", "train_batch_size", "batch_size_per_gpu", "minibatch_size"),
    "envs": ("num_envs", "n_envs", "envs", "num_env"),
    "lr": ("lr", "learning_rate"),
    "seed": ("seed", "rand_seed", "random_seed"),
    "threads": ("threads", "num_threads", "omp_num_threads"),
}
"""Names people give to settings whose effect a run shows directly."""

_EXACT_MEANINGS = ("prefetch_factor", "pin_memory", "persistent_workers")
"""A script's own `--num-workers` is not: it may start rollouts, or read an IterableDataset twice."""


def runtime_knob(name: str) -> Knob | None:
    return next((knob for knob in RUNTIME if knob.name == name), None)


def meaning_of(name: str) -> str | None:
    """`--num-workers`, `data.num_workers` and `NUM_WORKERS` are all the same to a reader."""
    last = name.lstrip("-").replace("-", "_").lower().rpartition(".")[2]
    return next((meaning for meaning, names in MEANINGS.items() if last in names), None)


def kind_of(name: str) -> Kind:
    """Of a setting of the script's own: what is not known to be harmless is another training."""
    meaning = meaning_of(name)
    if meaning in _EXACT_MEANINGS:
        return Kind.EXACT
    return Kind.NUMERIC if meaning == "threads" else Kind.DYNAMICS


def nearest_first(name: str, known: list[str]) -> list[str]:
    return sorted(known, key=lambda other: -SequenceMatcher(None, name.lower(), other.lower()).ratio())
