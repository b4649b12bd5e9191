"""What a made model consists of: tensors to draw, and small files to write beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vllm_parity.models.tensors import Tensor

#: The name of the weights' file in a model's folder.
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model before its seed: `files` maps a file's name to its content."""

    tensors: tuple[Tensor, ...]
    files: Mapping[str, bytes]

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(tensor.size for tensor in self.tensors)
