"""Where in the matrix an observation belongs, as far as its effective settings tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.contracts import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vllm_parity.schema import Observation

_MODE = {"True": "on", "1": "on", "False": "off", "0": "off"}


def place_of(observation: Observation) -> Place:
    """Return what a contract is looked for by; what the reference does not tell is None."""
    reference = observation.arms.reference
    knobs = {} if reference is None else reference.knobs
    dtype = knobs.get("dtype")
    return Place(
        family=observation.family,
        platform=observation.platform,
        dtype=None if dtype is None else str(dtype).removeprefix("torch."),
        batch_invariant=_MODE.get(str(knobs.get("env.VLLM_BATCH_INVARIANT"))),
        execution=_execution(knobs),
    )


def _execution(knobs: Mapping[str, object]) -> str | None:
    if knobs.get("enforce_eager") is None:
        return None
    if knobs["enforce_eager"]:
        return "eager"
    # The value of vLLM's CUDAGraphMode.NONE is 0; others are numbers or pairs of them.
    return "compiled" if knobs.get("cudagraph_mode") in (0, "NONE") else "graph"
