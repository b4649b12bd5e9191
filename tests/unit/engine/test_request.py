"""How many tokens must come is known where no EOS may end an answer earlier."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_parity.engine.request import ChatRequest, Request


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [({"ignore_eos": True}, 8), ({"ignore_eos": False}, None), ({}, None)],
)
def test_expected_tokens(sampling: dict[str, Any], expected: int | None) -> None:
    offline = Request(id="a", prompt="Hello", sampling=sampling | {"max_tokens": 8})
    chat = ChatRequest(id="a", messages=[], sampling=sampling | {"max_completion_tokens": 8})
    assert offline.expect_tokens == expected
    assert chat.expect_tokens == expected


def test_text_has_no_media() -> None:
    assert Request(id="a", prompt="Hello", sampling={}).media == ()
