"""Machines made of files, and an NVML made of Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

RECORDS = Path(__file__).parents[2] / "data" / "machines"
GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files under `root`, by their paths on the machine."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return root


def on_pci(vendor: str, kind: str, address: str = "0000:01:00.0") -> dict[str, str]:
    device = f"/sys/bus/pci/devices/{address}"
    return {f"{device}/vendor": vendor, f"{device}/class": kind}


@dataclass(kw_only=True)
class FakeCard:
    """A card or slice as NVML tells of it; `errors` are the codes that its calls return."""

    name: str = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-11111111-2222-3333-4444-555555555555"
    capability: tuple[int, int] = (9, 0)
    total: int = 80 * GIB
    free: int = 79 * GIB
    mig: list[FakeCard | None] | None = None
    errors: dict[str, int] = field(default_factory=dict)


class FakeNvml:
    """What looks like a ctypes.CDLL of NVML: each attribute is a function of C's arguments."""

    words: ClassVar = {
        4: b"Insufficient Permissions",
        6: b"Not Found",
        9: b"Driver Not Loaded",
        15: b"GPU is lost",
        18: b"Driver/library version mismatch",
    }

    def __init__(
        self, *cards: FakeCard, errors: dict[str, int] | None = None, missing: tuple[str, ...] = ()
    ) -> None:
        self.cards = cards
        self.errors = errors or {}
        self.missing = missing
        self.handles: list[FakeCard] = []
        self.stopped = 0

    def __getattr__(self, name: str) -> Any:
        if name in self.missing:
            raise AttributeError(name)
        function = getattr(type(self), f"_{name}")

        def call(*arguments: Any) -> Any:
            if name in self.errors:
                return self.errors[name]
            # As ctypes does: an argument that does not fit its type is an error.
            assert len(arguments) == len(call.argtypes)  # type: ignore[attr-defined]
            for argument, kind in zip(arguments, call.argtypes, strict=True):  # type: ignore[attr-defined]
                kind.from_param(argument)
            return function(self, *arguments)

        return call

    def _device(self, handle: Any) -> FakeCard:
        number: int = handle.value
        return self.handles[number - 1]

    def _hand_out(self, card: FakeCard, handle: Any) -> int:
        self.handles.append(card)
        handle._obj.value = len(self.handles)
        return 0

    def _nvmlErrorString(self, code: int) -> bytes | None:  # noqa: N802
        return self.words.get(code)

    def _nvmlInit_v2(self) -> int:  # noqa: N802
        return 0

    def _nvmlShutdown(self) -> int:  # noqa: N802
        self.stopped += 1
        return 0

    def _nvmlSystemGetDriverVersion(self, buffer: Any, size: int) -> int:  # noqa: N802
        assert size >= 80
        buffer.value = b"570.133.20"
        return 0

    def _nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.cards)
        return 0

    def _nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:  # noqa: N802
        card = self.cards[index]
        return card.errors.get("handle", 0) or self._hand_out(card, handle)

    def _nvmlDeviceGetName(self, handle: Any, buffer: Any, size: int) -> int:  # noqa: N802
        assert size >= 96
        buffer.value = self._device(handle).name.encode()
        return self._device(handle).errors.get("name", 0)

    def _nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: int) -> int:  # noqa: N802
        assert size >= 96
        buffer.value = self._device(handle).uuid.encode()
        return self._device(handle).errors.get("uuid", 0)

    def _nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:  # noqa: N802
        major._obj.value, minor._obj.value = self._device(handle).capability
        return self._device(handle).errors.get("capability", 0)

    def _nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:  # noqa: N802
        card = self._device(handle)
        memory._obj.total, memory._obj.free = card.total, card.free
        return card.errors.get("memory", 0)

    def _nvmlDeviceGetMemoryInfo_v2(self, handle: Any, memory: Any) -> int:  # noqa: N802
        assert memory._obj.version == 0x2000028  # nvmlMemory_v2 of nvml.h
        return self._nvmlDeviceGetMemoryInfo(handle, memory)

    def _nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:  # noqa: N802
        card = self._device(handle)
        current._obj.value = pending._obj.value = int(card.mig is not None)
        return card.errors.get("mig", 0)

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:  # noqa: N802
        count._obj.value = 7
        return 0

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int, part: Any) -> int:  # noqa: N802
        card = self._device(handle)
        if "slices" in card.errors:
            return card.errors["slices"]
        found = card.mig[index] if card.mig and index < len(card.mig) else None
        return 6 if found is None else self._hand_out(found, part)
