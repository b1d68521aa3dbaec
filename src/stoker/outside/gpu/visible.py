"""Which GPUs a command will see: CUDA_VISIBLE_DEVICES as CUDA itself reads it, by UUID.

A script may choose among them, or set the variable itself, after this was asked: all it could use are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.outside.gpu.seam import Facts, Gpus, known

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus(gpus: Gpus, env: Mapping[str, str]) -> tuple[str, ...]:
    """UUIDs; empty where the command has no GPU."""
    facts = [one for one in gpus.describe().devices if isinstance(one, Facts)]
    whole = [one for one in facts if not one.mig]
    wanted = env.get(VARIABLE)
    if wanted is None or _order_is_unknown(whole, wanted, env):
        return _uuids(whole)
    found: dict[str, None] = {}
    for word in map(str.strip, wanted.split(",")):
        uuid = _named(word, whole, facts)
        if uuid is None:
            break  # CUDA passes over all that follows a word it does not know
        found[uuid] = None
    return tuple(found)


def _uuids(facts: Sequence[Facts]) -> tuple[str, ...]:
    return tuple(uuid for one in facts if (uuid := known(one.uuid)))


def _order_is_unknown(whole: Sequence[Facts], wanted: str, env: Mapping[str, str]) -> bool:
    """CUDA counts the fastest first, NVML by bus: of unlike cards a number does not say which one."""
    if env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or not any(map(str.isdecimal, wanted.split(","))):
        return False
    return len({known(one.name) for one in whole}) > 1


def _named(word: str, whole: Sequence[Facts], facts: Sequence[Facts]) -> str | None:
    if word.isdecimal():
        return known(whole[int(word)].uuid) if int(word) < len(whole) else None
    if not word.startswith(("GPU-", "MIG-")):
        return None
    matching = [uuid for uuid in _uuids(facts) if uuid.lower().startswith(word.lower())]
    return matching[0] if len(matching) == 1 else None
