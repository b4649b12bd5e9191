"""What is asked: prompts by modality, each with every sampling setting of its family."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from vllm_parity.engine.request import ChatRequest, Request
from vllm_parity.matrix import Family, Modality, Switch, Transport
from vllm_parity.models import prompts

if TYPE_CHECKING:
    from vllm_parity.families.plan import Config
    from vllm_parity.matrix import Cell


def requests(cell: Cell, config: Config) -> tuple[Request, ...]:
    """Return the requests of an offline cell, all distinct and of different lengths."""
    return tuple(
        Request(id=f"{name}-{number}", prompt=prompt, media=media, sampling=sampling)
        for name, sampling in config.matrix.families[cell.family].sampling.items()
        for number, (prompt, media) in enumerate(_prompts(cell))
    )


def _prompts(cell: Cell) -> list[tuple[str, tuple[tuple[str, Any], ...]]]:
    if cell.modality is Modality.IMAGE:
        return [(one.prompt, (("image", one.pixels),)) for one in prompts.image_requests()]
    if cell.modality is Modality.VIDEO:
        return [(one.prompt, (("video", one.pixels),)) for one in prompts.video_requests()]
    if cell.family is Family.SPEC_DECODE:
        texts = prompts.REPETITIVE_PROMPTS
    elif cell.prefix_cache is Switch.ON:
        texts = prompts.LONG_PROMPTS
    else:
        texts = prompts.TEXT_PROMPTS
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
            sampling=sampling,
        )
        for name, sampling in config.matrix.families[cell.family].sampling.items()
        for number, content in enumerate(_contents(cell))
    )


def _contents(cell: Cell) -> list[Any]:
    long = cell.prefix_cache is Switch.ON
    if cell.transport is Transport.TEXT:
        return list(prompts.LONG_PROMPTS if long else prompts.TEXT_PROMPTS)
    preamble = prompts.PREAMBLE if long else ""
    return [
        [{"type": "text", "text": preamble + one.question}, _audio(cell.transport, one.wav)]
        for one in prompts.audio_requests()
    ]


def _audio(transport: Transport | None, wav: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(wav).decode("ascii")
    if transport is Transport.AUDIO_URL:
        return {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{encoded}"}}
    return {"type": "input_audio", "input_audio": {"data": encoded, "format": "wav"}}
