"""Images, videos and sounds made from a seed, with integer arithmetic: the same everywhere."""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib
from typing import TYPE_CHECKING

import numpy as np

from vllm_parity.models.draws import raw_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Samples per second of all sounds: what the audio model's feature extractor expects.
SAMPLE_RATE = 16_000

_TILE = 8


def image(seed: int, width: int, height: int) -> NDArray[np.uint8]:
    """Draw an image of coloured tiles, 8 x 8 pixels each: shape (height, width, 3), RGB."""
    rows, columns = -(-height // _TILE), -(-width // _TILE)
    words = raw_bits(seed, "image", math.prod((rows, columns, 3)))
    tiles = (words >> np.uint64(56)).astype(np.uint8).reshape(rows, columns, 3)
    pixels = tiles.repeat(_TILE, axis=0).repeat(_TILE, axis=1)
    return np.ascontiguousarray(pixels[:height, :width])


def video(seed: int, frames: int, width: int, height: int) -> NDArray[np.uint8]:
    """Draw a video of an image that moves 4 pixels a frame: shape (frames, height, width, 3)."""
    still = image(seed, width, height)
    return np.stack([np.roll(still, 4 * frame, axis=1) for frame in range(frames)])


def sound(seed: int, seconds: float) -> NDArray[np.int16]:
    """Draw a sound of several triangle waves, 100 to 3300 Hz: mono samples at `SAMPLE_RATE`.

    The pitches change every quarter of a second.
    """
    count = round(seconds * SAMPLE_RATE)
    note = SAMPLE_RATE // 4
    voices = 3
    notes = -(-count // note)
    words = raw_bits(seed, "sound", notes * voices).reshape(notes, voices)
    pitches = 100 + (words % np.uint64(3200)).astype(np.int64)
    steps = pitches.repeat(note, axis=0)[:count]
    phases = steps.cumsum(axis=0) % SAMPLE_RATE
    triangles = np.abs(2 * phases - SAMPLE_RATE) - SAMPLE_RATE // 2
    return np.asarray(triangles.sum(axis=1), dtype=np.int16)


def wav_bytes(samples: NDArray[np.int16]) -> bytes:
    """Write mono samples at `SAMPLE_RATE` as a WAV file."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(samples.astype("<i2").tobytes())
    return buffer.getvalue()


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """Write pixels of the shape (height, width, 3), RGB, as a PNG file.

    8 bits a sample, colour type 2, no filter, no interlacing (https://www.w3.org/TR/png-3/).
    """
    height, width, _ = pixels.shape
    unfiltered = np.zeros((height, 1), dtype=np.uint8)
    rows = np.hstack([unfiltered, pixels.reshape(height, 3 * width)])
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    length, checksum = len(data), zlib.crc32(kind + data)
    return struct.pack(">I", length) + kind + data + struct.pack(">I", checksum)
