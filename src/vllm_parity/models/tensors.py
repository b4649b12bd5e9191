"""The tensors of a made model, and the safetensors file that holds them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.models.draws import near_normal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """How one tensor of a checkpoint is drawn: ``mean + std * near_normal``.

    `name` is the Hugging Face checkpoint's. `row_scale`, of length ``shape[0]``, makes single
    rows louder or quieter. `diagonal` adds a matrix that hands its input on: ones where the column
    is the row plus `diagonal`.
    """

    name: str
    shape: tuple[int, ...]
    std: float
    mean: float = 0.0
    row_scale: tuple[float, ...] | None = None
    diagonal: int | None = None

    @property
    def size(self) -> int:
        """The number of parameters."""
        return math.prod(self.shape)

    def draw(self, seed: int, *, noise: float = 0.0) -> NDArray[np.float32]:
        """Draw the values; `noise` mixes in a second stream, in units of the first's spread."""
        values = near_normal(seed, self.name, self.shape)
        if noise:
            values = values + noise * near_normal(seed, f"noise/{self.name}", self.shape)
        values = self.std * values
        if self.row_scale is not None:
            scale = np.array(self.row_scale, dtype=np.float64)
            values = values * scale.reshape(-1, *(1,) * (len(self.shape) - 1))
        if self.diagonal is not None:
            rows, columns = self.shape
            values = values + np.eye(rows, columns, self.diagonal)
        return (values + self.mean).astype("<f4")


def linear(name: str, rows: int, columns: int, *, gain: float = 1.0) -> Tensor:
    """Describe the matrix of a linear layer that keeps the size of its input, times `gain`."""
    return Tensor(name=name, shape=(rows, columns), std=gain / math.sqrt(columns))


def bias(name: str, size: int, *, std: float = 0.1) -> Tensor:
    """Describe a bias."""
    return Tensor(name=name, shape=(size,), std=std)


def norm(name: str, size: int, *, mean: float = 1.0) -> Tensor:
    """Describe the weight of a norm."""
    return Tensor(name=name, shape=(size,), std=0.1 * mean, mean=mean)


def safetensors(tensors: Iterable[Tensor], seed: int, *, noise: float = 0.0) -> bytes:
    """Draw all tensors and write them in the safetensors format.

    The file is a little-endian 64-bit header length, a JSON header padded with spaces to a
    multiple of 8, and the values (https://github.com/huggingface/safetensors#format). It is
    written here so that no library's choice of order or padding can change its hash.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    chunks: list[bytes] = []
    end = 0
    for tensor in sorted(tensors, key=lambda each: each.name):
        data = tensor.draw(seed, noise=noise).tobytes()
        start, end = end, end + len(data)
        header[tensor.name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        chunks.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *chunks])
