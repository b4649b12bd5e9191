"""What is asked is distinct, of different lengths, and long where a cache must have something."""

from __future__ import annotations

import base64
import functools
import io
import wave
from typing import Any

from each import each

from vllm_parity.families import load_config, workload
from vllm_parity.families.plan import engine_settings
from vllm_parity.matrix import Cell, Family, Modality, Models, Switch, Transport
from vllm_parity.models import prompts

CONFIG = load_config()
CELLS = CONFIG.matrix.cells
BLOCK = 128
"""Tokens in a block of the KV cache on a CPU; a byte is a token."""

chat_cells = each(cell for cell in CELLS if cell.family is Family.STREAMING)
offline_cells = each(cell for cell in CELLS if cell.family is not Family.STREAMING)


@offline_cells
def test_prompts_of_one_sampling_setting_are_of_four_lengths(cell: Cell) -> None:
    asked = workload.requests(cell, CONFIG)
    for name in CONFIG.matrix.families[cell.family].sampling:
        texts = [one.prompt for one in asked if one.id.startswith(f"{name}-")]
        assert len(set(texts)) == len(texts)
        assert len({len(text) for text in texts}) >= min(4, len(texts))


@offline_cells
def test_media_are_those_of_the_modality(cell: Cell) -> None:
    kinds = {Modality.IMAGE: ["image"], Modality.VIDEO: ["video"]}
    expected = kinds.get(cell.modality, []) if cell.modality else []
    for one in workload.requests(cell, CONFIG):
        assert [kind for kind, _ in one.media] == expected
        assert all(pixels.ndim == {"image": 3, "video": 4}[kind] for kind, pixels in one.media)


@offline_cells
def test_prompts_are_longer_than_two_blocks_where_the_prefix_cache_is_on(cell: Cell) -> None:
    shortest = min(len(one.prompt) for one in workload.requests(cell, CONFIG))
    assert (shortest > 2 * BLOCK) is (cell.prefix_cache is Switch.ON)


@each(cell for cell in CELLS if cell.method)
def test_drafts_are_made_on_repetitive_prompts_with_every_sampling_setting(cell: Cell) -> None:
    asked = workload.requests(cell, CONFIG)
    long = cell.prefix_cache is Switch.ON
    texts = prompts.LONG_REPETITIVE_PROMPTS if long else prompts.REPETITIVE_PROMPTS
    names = CONFIG.matrix.families[cell.family].sampling
    marks = [f"{n} {name}: " if long else "" for name in names for n in range(4)]
    assert [one.prompt for one in asked] == [
        mark + text for mark, text in zip(marks, [*texts] * 2, strict=True)
    ]
    limits = [one.sampling["max_tokens"] for one in asked]
    if cell.models is Models.BUILT_IN:
        room = engine_settings(cell, CONFIG)["max_model_len"]
        ends = [len(one.prompt) + limit for one, limit in zip(asked, limits, strict=True)]
        assert max(ends) <= room
    assert [one.sampling.get("presence_penalty") for one in asked] == [None] * 4 + [-1.0] * 4


# Chats


@functools.cache
def parts(cell: Cell) -> list[Any]:
    contents = []
    for one in workload.chats(cell, CONFIG):
        (message,) = one.messages
        assert message["role"] == "user"
        contents.append(message["content"])
    return contents


def text_of(content: Any) -> str:
    text: str = content if isinstance(content, str) else content[0]["text"]
    return text


@chat_cells
def test_chats_are_of_four_lengths(cell: Cell) -> None:
    assert len({len(text_of(content)) for content in parts(cell)}) == 4


@chat_cells
def test_chats_are_longer_than_two_blocks_where_the_prefix_cache_is_on(cell: Cell) -> None:
    shortest = min(len(text_of(content)) for content in parts(cell))
    assert (shortest > 2 * BLOCK) is (cell.prefix_cache is Switch.ON)


@chat_cells
def test_sound_travels_as_the_transport_says(cell: Cell) -> None:
    for content, sound in zip(parts(cell), prompts.audio_requests(), strict=True):
        if cell.transport in {Transport.TEXT, Transport.TOOLS}:
            assert isinstance(content, str)
        elif cell.transport is Transport.AUDIO_URL:
            head, _, data = content[1]["audio_url"]["url"].partition(",")
            assert (content[1]["type"], head) == ("audio_url", "data:audio/wav;base64")
            assert base64.b64decode(data, validate=True) == sound.wav
        elif cell.transport is Transport.INPUT_AUDIO:
            audio = content[1]["input_audio"]
            assert (content[1]["type"], audio["format"]) == ("input_audio", "wav")
            assert base64.b64decode(audio["data"], validate=True) == sound.wav


def test_images_travel_as_png() -> None:
    (cell, *_) = (cell for cell in CELLS if cell.transport is Transport.IMAGE_URL)
    for content in parts(cell):
        head, _, data = content[1]["image_url"]["url"].partition(",")
        assert head == "data:image/png;base64"
        assert base64.b64decode(data, validate=True).startswith(b"\x89PNG\r\n")


def test_calls_are_forced_and_may_end() -> None:
    (cell, *_) = (cell for cell in CELLS if cell.transport is Transport.TOOLS)
    for one in workload.chats(cell, CONFIG):
        (tool,) = one.sampling["tools"]
        assert one.sampling["tool_choice"]["function"]["name"] == tool["function"]["name"]
        assert one.expect_tokens is None


def test_sounds_are_whole_wav_files() -> None:
    for sound in prompts.audio_requests():
        with wave.open(io.BytesIO(sound.wav)) as file:
            assert (file.getnchannels(), file.getframerate()) == (1, 16_000)
            assert file.getnframes() == len(sound.samples)
