"""Requests are deterministic, distinct, and as long as they say."""

from __future__ import annotations

import hashlib
import io
import wave
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vllm_parity.models import media, prompts

if TYPE_CHECKING:
    from numpy.typing import NDArray


def test_text_prompts_fit_one_step() -> None:
    lengths = [len(prompt) for prompt in prompts.TEXT_PROMPTS]
    assert len(set(lengths)) == 4
    assert sum(lengths) < 256


def test_long_prompts_share_two_blocks() -> None:
    assert len({prompt[:318] for prompt in prompts.LONG_PROMPTS}) == 1
    assert len({prompt[:319] for prompt in prompts.LONG_PROMPTS}) > 1
    assert len({len(prompt) for prompt in prompts.LONG_PROMPTS}) == 4


@pytest.mark.parametrize(
    ("made", "shape", "sha256"),
    [
        (media.image(1, 24, 16), (16, 24, 3), "8c7e6149ed6e7333"),
        (media.video(1, 3, 24, 16), (3, 16, 24, 3), "523f681b3741f9b6"),
        (media.sound(1, 0.5), (8000,), "35c16bc7fe5b36de"),
    ],
    ids=["image", "video", "sound"],
)
def test_media_are_known_bytes(
    made: NDArray[np.generic], shape: tuple[int, ...], sha256: str
) -> None:
    assert made.shape == shape
    assert hashlib.sha256(made.tobytes()).hexdigest().startswith(sha256)


def test_video_moves() -> None:
    frames = media.video(1, 3, 64, 32)
    assert not np.array_equal(frames[0], frames[1])
    assert np.array_equal(np.roll(frames[0], 4, axis=1), frames[1])


def test_sides_are_multiples_of_32_so_that_nothing_is_resized() -> None:
    for request in (*prompts.image_requests(), *prompts.video_requests()):
        assert request.pixels.dtype == np.uint8
        assert all(side % 32 == 0 for side in request.pixels.shape[-3:-1])


def test_requests_have_different_shapes_and_one_placeholder() -> None:
    images, videos = prompts.image_requests(), prompts.video_requests()
    assert len({request.pixels.shape for request in images}) == 4
    assert len({request.pixels.shape for request in videos}) == 4
    assert all(request.prompt.count("<|image_pad|>") == 1 for request in images)
    assert all(request.prompt.count("<|video_pad|>") == 1 for request in videos)


def test_sounds_are_wav_files_of_different_lengths() -> None:
    requests = prompts.audio_requests()
    assert len({len(request.samples) for request in requests}) == 4
    for request in requests:
        with wave.open(io.BytesIO(request.wav)) as file:
            assert file.getparams()[:4] == (1, 2, 16_000, len(request.samples))
            data = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        assert np.array_equal(data, request.samples)
        assert np.abs(request.samples).max() > 8_000


def test_video_metadata_describes_the_frames() -> None:
    metadata = prompts.video_metadata(4)
    assert metadata["frames_indices"] == [0, 1, 2, 3]
    assert metadata["duration"] == 2.0
