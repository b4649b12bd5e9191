"""Whether a machine can run a cell: what the cell needs, held against what was probed.

What cannot be told never gates: a cell is held back only for what is known to be missing.
Standard library only, since the noxfile's sessions ask before anything is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.hardware import at_least
from vllm_parity.hub import has_token, is_downloaded
from vllm_parity.matrix.axes import Dtype, Family, Method, Platform
from vllm_parity.matrix.models import HubModel
from vllm_parity.matrix.rules import rules_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vllm_parity.found import Vllm
    from vllm_parity.hardware import Device, Machine
    from vllm_parity.matrix import Cell, Matrix, PlatformSettings
    from vllm_parity.matrix.rules import Requirement

_GIB = 1 << 30
_BYTES = {Dtype.FLOAT32: 4, Dtype.BFLOAT16: 2, Dtype.FLOAT16: 2}
_MAKERS = {Platform.CUDA: "an NVIDIA GPU", Platform.ROCM: "an AMD GPU", Platform.CPU: "processors"}


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """Cells that can run here, and those that cannot, each with its reason, both in order."""

    runnable: tuple[Cell, ...]
    missing: dict[Cell, str]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What cells are held against. `vllm` is None where it is not known which vLLM will run."""

    matrix: Matrix
    platforms: Mapping[Platform, PlatformSettings]
    machine: Machine
    vllm: Vllm | None = None

    def sort(self, cells: Sequence[Cell]) -> Sorted:
        """Tell the cells that can run here from those that cannot."""
        reasons = {cell: self.missing(cell) for cell in cells}
        return Sorted(
            runnable=tuple(cell for cell, reason in reasons.items() if reason is None),
            missing={cell: reason for cell, reason in reasons.items() if reason is not None},
        )

    def missing(self, cell: Cell) -> str | None:
        """Return what a cell needs and is known not to be here, or None."""
        return next(self._reasons(cell), None)

    def _reasons(self, cell: Cell) -> Iterator[str]:
        probe = self.machine.probe(cell.platform)
        if not probe.devices:
            if probe.problem is None:
                hidden = f" ({probe.note})" if probe.note else ""
                yield f"needs {_MAKERS[cell.platform]}, and there is none{hidden}"
            device = None
        else:
            # vLLM takes the first that is visible.
            device = probe.devices[0]
        yield from _architecture(device, self.platforms[cell.platform].architecture, "vLLM's least")
        for requirement in rules_for(cell, self.matrix.requirements):
            yield from self._unmet(requirement, device, len(probe.devices))
        yield from self._memory(cell, device)
        yield from self._models(cell)

    def _unmet(
        self, requirement: Requirement, device: Device | None, devices: int
    ) -> Iterator[str]:
        why = requirement.why
        if requirement.architecture:
            yield from _architecture(device, requirement.architecture, why)
        if requirement.devices and 0 < devices < requirement.devices:
            yield f"needs {requirement.devices} GPUs, and there are {devices} ({why})"
        free = device.memory_free if device else None
        if requirement.memory_gib and free is not None and free < requirement.memory_gib * _GIB:
            yield f"needs {requirement.memory_gib:.1f} GiB, {free / _GIB:.1f} are free ({why})"
        if self.vllm is None:
            return
        if requirement.vllm and self.vllm.is_older_than(requirement.vllm):
            yield f"needs vLLM {requirement.vllm}, and {self.vllm.version} was found ({why})"
        for name in requirement.engine_arguments:
            if not self.vllm.has_argument(name):
                yield f"vLLM {self.vllm.version} has no engine argument {name} ({why})"

    def _memory(self, cell: Cell, device: Device | None) -> Iterator[str]:
        need = self.memory(cell)
        if device is None or device.memory_free is None or device.memory_free >= need:
            return
        total = f" of {device.memory_total / _GIB:.1f}" if device.memory_total else ""
        yield (
            f"needs about {need / _GIB:.1f} GiB of memory for {cell.model},"
            f" and {device.memory_free / _GIB:.1f}{total} are free"
        )

    def _models(self, cell: Cell) -> Iterator[str]:
        for name in _models_of(cell, self.matrix):
            model = self.matrix.models[name]
            if isinstance(model, HubModel) and model.revision is None:
                yield (
                    f"models.toml pins no revision of {name}; where the hub can be reached,"
                    f" `vllm-parity models --pin {name}` writes it"
                )
            elif isinstance(model, HubModel) and model.needs_token and not self._can_have(model):
                yield (
                    f"{name} needs a token of the hub, and there is none: set HF_TOKEN, or take"
                    " --models built-in"
                )

    def _can_have(self, model: HubModel) -> bool:
        return has_token() or is_downloaded(model.repo, model.revision)

    def memory(self, cell: Cell) -> int:
        """Estimate the bytes that a cell's engines take while they are alive together.

        For each: the weights (parameters times the size of the dtype), the KV cache, and what
        platforms.toml says that an engine takes besides.
        """
        platform = self.platforms[cell.platform]
        engines = _engines_of(cell)
        besides = platform.engine.get("kv_cache_memory_bytes", 0) + platform.engine_gib * _GIB
        models = _models_of(cell, self.matrix)
        parameters = sum(self.matrix.models[name].parameters for name in models)
        parameters += (engines - 1) * self.matrix.models[cell.model].parameters
        return int(parameters * _BYTES[cell.dtype] + engines * besides)

    def largest_engine(self, cells: Sequence[Cell]) -> int:
        """Estimate the bytes that the largest engine or server of some cells takes."""
        return max(self.memory(cell) // _engines_of(cell) for cell in cells)


def _engines_of(cell: Cell) -> int:
    """Return how many engines a cell has alive together: with drafts its arms have one each."""
    return 2 if cell.family is Family.SPEC_DECODE else 1


def _models_of(cell: Cell, matrix: Matrix) -> list[str]:
    """Return the models that a cell loads: its own, and the one that drafts for it."""
    drafts = matrix.models[cell.model].drafts
    draft = drafts.get(cell.method) if cell.method and cell.method is not Method.NGRAM else None
    return [cell.model, *([draft] if draft else [])]


def _architecture(device: Device | None, least: str, why: str) -> Iterator[str]:
    if device is not None and at_least(device.architecture, least) is False:
        yield f"needs {least} or above, and {device.name} is {device.architecture} ({why})"
