"""NVIDIA's management library over ctypes: the dozen calls that a probe needs.

Source: nvml.h, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import contextlib
import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Library: TypeAlias = Any
"""A ctypes.CDLL, or what looks like one."""

_BUFFER = 256
"""Bytes for a text; NVML's longest, of a name or UUID, are 96."""


class Code(IntEnum):
    """Those of NVML's return codes that mean something to a probe."""

    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    FUNCTION_NOT_FOUND = 13
    MISMATCH = 18


class NvmlError(Exception):
    """A call of NVML failed, with its return code and NVML's words for it."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(f"{words} ({code})")
        self.code = code


class _Memory(ctypes.Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Memory2(ctypes.Structure):
    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


_TEXT = (c_char_p, c_uint)
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "nvmlInit_v2": (),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": _TEXT,
    "nvmlDeviceGetCount_v2": (POINTER(c_uint),),
    "nvmlDeviceGetHandleByIndex_v2": (c_uint, POINTER(c_void_p)),
    "nvmlDeviceGetName": (c_void_p, *_TEXT),
    "nvmlDeviceGetUUID": (c_void_p, *_TEXT),
    "nvmlDeviceGetCudaComputeCapability": (c_void_p, POINTER(c_int), POINTER(c_int)),
    "nvmlDeviceGetMemoryInfo": (c_void_p, POINTER(_Memory)),
    "nvmlDeviceGetMemoryInfo_v2": (c_void_p, POINTER(_Memory2)),
    "nvmlDeviceGetMigMode": (c_void_p, POINTER(c_uint), POINTER(c_uint)),
    "nvmlDeviceGetMaxMigDeviceCount": (c_void_p, POINTER(c_uint)),
    "nvmlDeviceGetMigDeviceHandleByIndex": (c_void_p, c_uint, POINTER(c_void_p)),
}


def open_nvml() -> Library:
    """Return the library; OSError where there is none."""
    return ctypes.CDLL("libnvidia-ml.so.1")


class Nvml:
    """NVML, between :meth:`start` and :meth:`stop`. Each call returns its value or NvmlError."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def start(self) -> None:
        """Connect to the driver."""
        self._call("nvmlInit_v2")

    def stop(self) -> None:
        """Let go of the driver; a failure to do so is no finding."""
        with contextlib.suppress(NvmlError):
            self._call("nvmlShutdown")

    def driver(self) -> str:
        """Return the driver's version."""
        return self._text("nvmlSystemGetDriverVersion")

    def cards(self) -> range:
        """Return the cards' indices, in the order of the PCI bus."""
        return range(self._number("nvmlDeviceGetCount_v2"))

    def card(self, index: int) -> c_void_p:
        """Return a handle of the card."""
        handle = c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", index, byref(handle))
        return handle

    def name(self, device: c_void_p) -> str:
        """Return a product's name, or a slice's."""
        return self._text("nvmlDeviceGetName", device)

    def uuid(self, device: c_void_p) -> str:
        """Return ``GPU-`` or ``MIG-`` and the UUID."""
        return self._text("nvmlDeviceGetUUID", device)

    def capability(self, device: c_void_p) -> tuple[int, int]:
        """Return the compute capability, major and minor."""
        major, minor = c_int(), c_int()
        self._call("nvmlDeviceGetCudaComputeCapability", device, byref(major), byref(minor))
        return major.value, minor.value

    def memory(self, device: c_void_p) -> tuple[int, int]:
        """Return the total and the free memory in bytes."""
        memory = _Memory2(version=ctypes.sizeof(_Memory2) | 2 << 24)
        try:
            self._call("nvmlDeviceGetMemoryInfo_v2", device, byref(memory))
        except NvmlError:
            # Drivers before 510 have only the first version, which says the same of these two.
            first = _Memory()
            self._call("nvmlDeviceGetMemoryInfo", device, byref(first))
            return first.total, first.free
        return memory.total, memory.free

    def mig(self, card: c_void_p) -> bool:
        """Return whether the card is cut into slices."""
        current, pending = c_uint(), c_uint()
        self._call("nvmlDeviceGetMigMode", card, byref(current), byref(pending))
        return current.value == 1

    def slices(self, card: c_void_p) -> Iterator[c_void_p]:
        """Return a handle of each slice of the card."""
        for index in range(self._number("nvmlDeviceGetMaxMigDeviceCount", card)):
            handle = c_void_p()
            try:
                self._call("nvmlDeviceGetMigDeviceHandleByIndex", card, index, byref(handle))
            except NvmlError as error:
                if error.code == Code.NOT_FOUND:  # no slice was made at this place
                    continue
                raise
            yield handle

    def _text(self, name: str, *arguments: Any) -> str:  # noqa: ANN401
        buffer = ctypes.create_string_buffer(_BUFFER)
        self._call(name, *arguments, buffer, _BUFFER)
        return buffer.value.decode(errors="replace")

    def _number(self, name: str, *arguments: Any) -> int:  # noqa: ANN401
        number = c_uint()
        self._call(name, *arguments, byref(number))
        return number.value

    def _call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise NvmlError(Code.FUNCTION_NOT_FOUND, f"this driver has no {name}") from None
        function.argtypes = _ARGUMENTS[name]
        function.restype = c_int
        code = function(*arguments)
        if code != 0:
            raise NvmlError(code, self._words(code))

    def _words(self, code: int) -> str:
        try:
            function = self._library.nvmlErrorString
        except AttributeError:
            return "NVML error"
        function.argtypes = (c_int,)
        function.restype = c_char_p
        words = function(code)
        return words.decode(errors="replace") if words else "NVML error"
