"""Drafting tokens may change the speed, never the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vllm_parity.matrix import Cell
    from vllm_parity.plugin import Parity


@pytest.mark.parity(family="spec_decode")
def test_drafted_tokens_equal_plain_decoding(cell: Cell, parity: Parity) -> None:
    parity.check(cell)
