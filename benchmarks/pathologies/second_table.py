"""Which cause each stand-alone script of `second/` holds: its file's name without `.py`, and what is right.

`"SK201"` one cause; `"SK101|SK102"` either is right; `"SK101+SK401"` two faults at once; `""` healthy.
Filled in after the scripts were written, by somebody who knows the codes; the scripts' author does not.
"""

from __future__ import annotations

EXPECTED: dict[str, str] = {}
ON_GPU_ONLY: frozenset[str] = frozenset()
ON_CPU_ONLY: frozenset[str] = frozenset()
