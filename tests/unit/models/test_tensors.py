"""The safetensors file that we write is one that the safetensors library reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import safetensors.numpy

from vllm_parity.models.tensors import Tensor, bias, linear, norm
from vllm_parity.models.tensors import safetensors as written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

TENSORS = (linear("b", 3, 5), norm("a", 7, mean=2.0), bias("c.bias", 3))


def load(data: bytes) -> Mapping[str, NDArray[np.float32]]:
    tensors: Mapping[str, NDArray[np.float32]] = safetensors.numpy.load(data)
    return tensors


def test_library_reads_what_was_drawn() -> None:
    tensors = load(written(TENSORS, 5))
    assert set(tensors) == {"a", "b", "c.bias"}
    for tensor in TENSORS:
        assert tensors[tensor.name].dtype == np.float32
        assert np.array_equal(tensors[tensor.name], tensor.draw(5))


def test_same_seed_same_bytes_whatever_the_order() -> None:
    assert written(TENSORS, 5) == written(reversed(TENSORS), 5)
    assert written(TENSORS, 5) != written(TENSORS, 6)


def test_new_tensor_moves_no_other() -> None:
    before, after = load(written(TENSORS, 5)), load(written((*TENSORS, norm("new", 9)), 5))
    for name, values in before.items():
        assert np.array_equal(after[name], values)


def test_noise_is_relative_to_the_spread() -> None:
    tensor = Tensor(name="w", shape=(100, 100), std=0.25, mean=3.0)
    change = tensor.draw(1, noise=0.1) - tensor.draw(1)
    assert abs(change.std() - 0.025) < 0.001
    assert np.array_equal(tensor.draw(1, noise=0.0), tensor.draw(1))


def test_diagonal_hands_a_part_of_the_input_on() -> None:
    plain = Tensor(name="w", shape=(2, 4), std=0.01)
    handing = Tensor(name="w", shape=(2, 4), std=0.01, diagonal=2)
    added = handing.draw(1) - plain.draw(1)
    assert np.allclose(added @ np.array([1.0, 2.0, 3.0, 4.0]), [3.0, 4.0], atol=1e-5)


def test_row_scale_quietens_rows() -> None:
    loud = Tensor(name="w", shape=(2, 4), std=1.0)
    quiet = Tensor(name="w", shape=(2, 4), std=1.0, row_scale=(1.0, 0.5))
    assert np.array_equal(quiet.draw(1)[0], loud.draw(1)[0])
    assert np.array_equal(quiet.draw(1)[1], loud.draw(1)[1] / 2)
