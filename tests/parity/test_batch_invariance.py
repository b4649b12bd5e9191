"""A request's numbers must not depend on the batch it runs in, nor on a warm prefix cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vllm_parity.matrix import Cell
    from vllm_parity.plugin import Parity


@pytest.mark.parity(family="batch_invariance")
def test_each_request_alone_equals_all_in_one_batch(cell: Cell, parity: Parity) -> None:
    parity.check(cell)
