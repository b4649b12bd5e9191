"""A chat completion says the same in one piece and streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from vllm_parity.matrix import Cell
    from vllm_parity.plugin import Parity


@pytest.mark.parity(family="streaming")
def test_streamed_chat_equals_plain_chat(cell: Cell, parity: Parity) -> None:
    parity.check(cell)
