"""A PNG that we write is one that the format's description reads back."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from vllm_parity.models import media


def test_png_holds_the_pixels() -> None:
    pixels = media.image(3, 24, 16)
    data = media.png_bytes(pixels)
    signature, place, chunks = data[:8], 8, {}
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, place + 8 + length)
        assert checksum == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + length
    assert signature == b"\x89PNG\r\n\x1a\n"
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (24, 16, 8, 2, 0, 0, 0)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(16, 1 + 24 * 3)
    assert not rows[:, 0].any()  # no filter
    assert np.array_equal(rows[:, 1:].reshape(16, 24, 3), pixels)
