"""What is asked: prompts by modality, each with every sampling setting of its family."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.request import ChatRequest, Request
from vllm_parity.matrix import Family, Modality, Switch, Transport
from vllm_parity.models import media, prompts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vllm_parity.families.plan import Config
    from vllm_parity.matrix import Cell

    _Prompt = str | tuple[int, ...]
    _Asked = tuple[_Prompt, tuple[tuple[str, Any], ...]]

_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "paint",
        "description": "Paint something.",
        "parameters": {
            "type": "object",
            "properties": {
                "colour": {"enum": ["red", "green", "blue", "yellow"]},
                "thing": {"enum": ["house", "boat", "tree", "dragon"]},
            },
            "required": ["colour", "thing"],
            "additionalProperties": False,
        },
    },
}
"""A tool whose arguments are few: a model that knows nothing still makes a whole, valid call."""

_CALL_TOKENS = 64
"""More tokens than the longest call of `_TOOL` has: a byte is a token."""


def requests(cell: Cell, config: Config) -> tuple[Request, ...]:
    """Return the requests of an offline cell, all distinct and of different lengths."""
    family = config.matrix.families[cell.family]
    if cell.workload:
        size = family.workloads[cell.workload]
        asked: list[_Asked] = [
            (ids, ()) for ids in prompts.token_prompts(size.requests, size.shortest, size.longest)
        ]
    else:
        asked = _prompts(cell)
    return tuple(
        Request(
            id=f"{name}-{number}",
            prompt=_marked(cell, prompt, f"{number} {name}"),
            media=media,
            sampling=sampling,
        )
        for name, sampling in family.sampling.items()
        for number, (prompt, media) in enumerate(asked)
    )


def _marked(cell: Cell, prompt: _Prompt, mark: str) -> _Prompt:
    """Have each text begin otherwise where prefixes are cached: no request finds another's."""
    if cell.prefix_cache is Switch.OFF or cell.medium != "text" or not isinstance(prompt, str):
        return prompt
    return f"{mark}: {prompt}"


def _prompts(cell: Cell) -> list[_Asked]:
    long = cell.prefix_cache is Switch.ON
    if cell.modality in {Modality.IMAGE, Modality.VIDEO}:
        ask = prompts.image_requests if cell.modality is Modality.IMAGE else prompts.video_requests
        preamble = prompts.PREAMBLE if long else ""
        return [
            (one.prompt, ((cell.modality.value, one.pixels),)) for one in ask(preamble=preamble)
        ]
    if cell.family is Family.SPEC_DECODE:
        texts = prompts.LONG_REPETITIVE_PROMPTS if long else prompts.REPETITIVE_PROMPTS
    else:
        texts = prompts.LONG_PROMPTS if long else prompts.TEXT_PROMPTS
    return [(text, ()) for text in texts]


def chats(cell: Cell, config: Config) -> tuple[ChatRequest, ...]:
    """Return the requests of a streaming cell.

    With the prefix cache on they are longer than a block of KV cache, so that there is something
    to share.
    """
    return tuple(
        ChatRequest(
            id=f"{name}-{number}",
            messages=[{"role": "user", "content": content}],
            sampling=_calling(sampling) if cell.transport is Transport.TOOLS else sampling,
        )
        for name, sampling in config.matrix.families[cell.family].sampling.items()
        for number, content in enumerate(_contents(cell))
    )


def _contents(cell: Cell) -> list[Any]:
    long = cell.prefix_cache is Switch.ON
    if cell.transport in {Transport.TEXT, Transport.TOOLS}:
        texts = prompts.LONG_PROMPTS if long else prompts.TEXT_PROMPTS
        return [_marked(cell, text, str(number)) for number, text in enumerate(texts)]
    return [
        [
            {
                "type": "text",
                "text": f"{number}: {prompts.PREAMBLE}{question}" if long else question,
            },
            part,
        ]
        for number, (question, part) in enumerate(_questions(cell.transport))
    ]


def _questions(transport: Transport | None) -> list[tuple[str, dict[str, Any]]]:
    """Return each question with the part of a message that holds what it is about."""
    if transport is Transport.IMAGE_URL:
        return [(one.question, _image(one.pixels)) for one in prompts.image_requests()]
    return [(one.question, _audio(transport, one.wav)) for one in prompts.audio_requests()]


def _image(pixels: NDArray[np.uint8]) -> dict[str, Any]:
    encoded = base64.b64encode(media.png_bytes(pixels)).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}


def _audio(transport: Transport | None, wav: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(wav).decode("ascii")
    if transport is Transport.AUDIO_URL:
        return {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{encoded}"}}
    return {"type": "input_audio", "input_audio": {"data": encoded, "format": "wav"}}


def _calling(sampling: dict[str, Any]) -> dict[str, Any]:
    """Return the same parameters for a request whose answer must be a call of `_TOOL`.

    The grammar of the call ends the answer, so an EOS must be allowed to.
    """
    return {
        **sampling,
        "ignore_eos": False,
        "max_completion_tokens": _CALL_TOKENS,
        "tools": [_TOOL],
        "tool_choice": {"type": "function", "function": {"name": _TOOL["function"]["name"]}},
    }
