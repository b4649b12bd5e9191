"""Messages between a host and its worker: msgpack, with numpy arrays carried whole.

msgpack, since JSON has no word for NaN or infinity, which a broken engine returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_ARRAY = 1


def _encode(value: object) -> msgspec.msgpack.Ext:
    if not isinstance(value, np.ndarray):
        msg = f"cannot send {type(value).__name__}"
        raise NotImplementedError(msg)
    head = (value.dtype.str, value.shape, value.tobytes())
    return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(head))


def _decode(code: int, data: memoryview) -> object:
    if code != _ARRAY:
        msg = f"unknown extension {code}"
        raise ValueError(msg)
    dtype, shape, content = msgspec.msgpack.decode(data)
    return np.frombuffer(content, dtype=dtype).reshape(shape).copy()


def send(connection: Connection[bytes, bytes], message: dict[str, Any]) -> None:
    """Send one message."""
    connection.send_bytes(msgspec.msgpack.encode(message, enc_hook=_encode))


def receive(connection: Connection[bytes, bytes]) -> dict[str, Any]:
    """Receive one message.

    Raises:
        EOFError: where the other side has gone.

    """
    message: dict[str, Any] = msgspec.msgpack.decode(connection.recv_bytes(), ext_hook=_decode)
    return message
