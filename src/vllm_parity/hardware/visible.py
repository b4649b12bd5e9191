"""What a visible-devices variable leaves of the devices, read as CUDA and ROCm read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from vllm_parity.hardware.files import as_number

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Choice(Generic[T]):
    """The devices that ``variable=value`` leaves, in its order.

    `by_index` says whether any was named by its index, `end` what is wrong with the entry that
    ended the list.
    """

    variable: str
    value: str
    devices: tuple[T, ...]
    by_index: bool = False
    end: str | None = None

    def note(self, hidden: int) -> str | None:
        """Say that the variable hides so many GPUs; None where there is nothing to say."""
        hides = f"hides {hidden} GPU{'' if hidden == 1 else 's'}" if hidden > 0 else ""
        says = f"{self.variable}={self.value}"
        if self.end:
            return f"{says}: {self.end}" + (f", and {hides}" if hides else "")
        if not self.value.strip():
            says = f"{self.variable} is empty and"
        return f"{says} {hides}" if hides else None


def choose(
    variable: str, value: str | None, devices: Sequence[T], names: Sequence[tuple[str, T]]
) -> Choice[T]:
    """Return what ``variable=value`` leaves of `devices`; None is a variable that is not set.

    An entry is an index into `devices`, or the beginning of exactly one of `names`. The first
    entry that is neither ends the list, and so does one that comes twice.
    """
    if value is None:
        return Choice(variable=variable, value="", devices=tuple(devices))
    chosen: list[T] = []
    by_index = False
    end = None
    for entry in map(str.strip, value.split(",") if value.strip() else []):
        index = as_number(entry)
        device = _find(entry, index, devices, names)
        if device is None or device in chosen:
            end = f"{entry!r} {'names no GPU' if device is None else 'comes twice'}, which ends it"
            break
        by_index = by_index or index is not None
        chosen.append(device)
    return Choice(variable=variable, value=value, devices=tuple(chosen), by_index=by_index, end=end)


def _find(
    entry: str, index: int | None, devices: Sequence[T], names: Sequence[tuple[str, T]]
) -> T | None:
    if index is not None:
        return devices[index] if index < len(devices) else None
    # A prefix such as "GPU-" alone is no name, even where it fits one GPU only.
    if not entry.upper().startswith(("GPU-", "MIG-")) or len(entry) < 5:
        return None
    fitting = [device for name, device in names if name.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None
