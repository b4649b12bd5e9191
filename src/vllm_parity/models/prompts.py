"""Requests for the made models. A byte is a token, so lengths in tokens can be read off."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vllm_parity.models import media, qwen2_audio, qwen3_vl
from vllm_parity.models.draws import raw_bits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Four distinct requests of different lengths; together well under 256 tokens, so that one step
#: can hold the prompts of all four. The last one is long enough for threads to share its matrix
#: products otherwise in a batch: with 72 tokens an AVX-512 processor shows no batch at all.
TEXT_PROMPTS = (
    "Hello",
    "The capital of France is",
    "Count with me: one, two, three, four,",
    (
        "In the beginning there was a small program that did nothing at all, and it did so in the"
        " same way each time, to the very last bit"
    ),
)

#: Prompts after which `tiny-qwen3` says the same for a while, then changes its mind: prompt lookup
#: drafts tokens, of which some are accepted and some rejected.
REPETITIVE_PROMPTS = (
    "one two one two one two one two one two",
    "abcabcabcabcabcabcabc",
    "tick tock tick tock tick tock tick",
    "na na na na na na na na batman na na na na",
)

#: The same, longer than two 128-token blocks of KV cache: for EAGLE, vLLM gives up the last block
#: that it found, since the hidden state before the next token is needed as well.
LONG_REPETITIVE_PROMPTS = tuple(
    "do re mi fa so la ti do " * 11 + text for text in REPETITIVE_PROMPTS
)

PREAMBLE = "A cache is a promise that nothing has changed since. " * 6

#: Prompts of more than 300 tokens that begin with the same 318: more than two of the 128-token
#: blocks that the KV cache has on a CPU, so that a prefix cache has something to share.
LONG_PROMPTS = (
    f"{PREAMBLE}No.",
    f"{PREAMBLE}What then?",
    f"{PREAMBLE}Who says so, and when?",
    f"{PREAMBLE}Let us look at it again, slowly this time.",
)

_QUESTIONS = (
    "What is it?",
    "Describe what you see here.",
    "Which colours are there, and how many of them?",
    "Tell me what has changed from left to right.",
)

_SOUND_QUESTIONS = (
    "What is it?",
    "Describe what you hear.",
    "Which notes are there, and how many of them?",
    "Tell me, in as many words as you like, what has changed since it began.",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class VisionRequest:
    """A question about an image or a video, as the user's turn of a chat.

    `prompt` is complete: chat template applied, one placeholder for the medium. `pixels` are
    RGB bytes: (height, width, 3) for an image, (frames, height, width, 3) for a video.
    """

    question: str
    prompt: str
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, eq=False)
class AudioRequest:
    """A question about a sound; `wav` is a whole WAV file, `samples` what it holds."""

    question: str
    prompt: str
    samples: NDArray[np.int16]
    wav: bytes


@functools.cache
def image_requests(seed: int = 0, preamble: str = "") -> tuple[VisionRequest, ...]:
    """Return four requests with one image each, of different sizes (4 to 12 image tokens).

    For the made models they have fewer than 256 tokens together, so that one small step holds all.
    `preamble` comes between the image and the question, so that both can be cached as a prefix.
    """
    sizes = ((64, 64), (96, 64), (128, 64), (96, 128))
    return tuple(
        VisionRequest(
            question=question,
            prompt=user_turn(qwen3_vl.IMAGE + preamble + question),
            pixels=media.image(seed + index, width, height),
        )
        for index, (question, (width, height)) in enumerate(zip(_QUESTIONS, sizes, strict=True))
    )


@functools.cache
def video_requests(seed: int = 100, preamble: str = "") -> tuple[VisionRequest, ...]:
    """Return four requests with one video each, of different lengths and sizes.

    `preamble` is as in :func:`image_requests`.
    """
    shapes = ((4, 64, 64), (4, 96, 64), (6, 64, 64), (8, 64, 96))
    return tuple(
        VisionRequest(
            question=question,
            prompt=user_turn(qwen3_vl.VIDEO + preamble + question),
            pixels=media.video(seed + index, frames, width, height),
        )
        for index, (question, (frames, width, height)) in enumerate(
            zip(_QUESTIONS, shapes, strict=True)
        )
    )


def video_metadata(frames: int, fps: float = 2.0) -> dict[str, object]:
    """Return what vLLM wants to know of a video: the second part of a ``(pixels, metadata)``."""
    return {
        "fps": fps,
        "duration": frames / fps,
        "total_num_frames": frames,
        "frames_indices": list(range(frames)),
        "video_backend": "opencv",
        "do_sample_frames": False,
    }


@functools.cache
def audio_requests(seed: int = 200) -> tuple[AudioRequest, ...]:
    """Return four requests with one sound each, of different lengths (25 tokens a second).

    The last is longer than two of the KV cache's 128-token blocks, for the prefix cache.
    """
    requests = []
    for index, (question, seconds) in enumerate(
        zip(_SOUND_QUESTIONS, (0.5, 1.0, 2.0, 8.0), strict=True)
    ):
        samples = media.sound(seed + index, seconds)
        requests.append(
            AudioRequest(
                question=question,
                prompt=user_turn(qwen2_audio.AUDIO + question),
                samples=samples,
                wav=media.wav_bytes(samples),
            )
        )
    return tuple(requests)


@functools.cache
def token_prompts(
    count: int, shortest: int, longest: int, seed: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Draw prompts as token ids, of lengths from `shortest` to `longest` in even steps.

    As ids, so that their lengths are the same for every tokenizer. They are those of printable
    ASCII in the made models, and common tokens in most others.
    """
    lengths = [shortest + (longest - shortest) * index // (count - 1) for index in range(count)]
    return tuple(
        tuple(int(word % 94) + 33 for word in raw_bits(seed, f"prompt {index}", length))
        for index, length in enumerate(lengths)
    )


def user_turn(content: str) -> str:
    """Return a chat of one user's turn, as the models' chat template writes it."""
    return f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"
