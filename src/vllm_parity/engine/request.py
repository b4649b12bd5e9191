"""Requests: to an offline engine, and to a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Request:
    """A prompt, as text or as token ids, its media and vLLM's sampling parameters.

    `media` has one pair a piece, of the kind (``image``, ``video``) and its pixels: uint8 of the
    shape (height, width, 3), and (frames, height, width, 3) for a video.
    """

    id: str
    prompt: str | tuple[int, ...]
    sampling: dict[str, Any]
    media: tuple[tuple[str, NDArray[np.uint8]], ...] = ()

    @property
    def expect_tokens(self) -> int | None:
        """The number of tokens that must come; None where an EOS may end it earlier."""
        return self.sampling["max_tokens"] if self.sampling.get("ignore_eos") else None


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A chat completion request to a server: messages and OpenAI's parameters."""

    id: str
    messages: list[dict[str, Any]]
    sampling: dict[str, Any]

    @property
    def expect_tokens(self) -> int | None:
        """The number of tokens that must come; None where an EOS may end it earlier."""
        limit: int = self.sampling["max_completion_tokens"]
        return limit if self.sampling.get("ignore_eos") else None
