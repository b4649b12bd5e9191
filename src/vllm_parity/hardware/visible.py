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
    """The devices that a variable leaves, in its order, and what to say about it.

    `by_index` says whether any was named by its index.
    """

    devices: tuple[T, ...]
    note: str | None = None
    by_index: bool = False


def choose(
    variable: str, value: str | None, devices: Sequence[T], names: Sequence[tuple[str, T]]
) -> Choice[T]:
    """Return what ``variable=value`` leaves of `devices`; None is a variable that is not set.

    An entry is an index into `devices`, or the beginning of exactly one of `names`. The first
    entry that is neither ends the list, and so does one that comes twice.
    """
    if value is None:
        return Choice(devices=tuple(devices))
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
    note = _note(variable, value, hidden=sum(device not in chosen for device in devices), end=end)
    return Choice(devices=tuple(chosen), note=note, by_index=by_index)


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


def _note(variable: str, value: str, *, hidden: int, end: str | None) -> str | None:
    says = f"{variable}={value}" if value.strip() else f"{variable} is empty and"
    hides = f"hides {hidden} GPU{'' if hidden == 1 else 's'}" if hidden else ""
    if end:
        return f"{variable}={value}: {end}" + (f", and {hides}" if hides else "")
    return f"{says} {hides}" if hides else None
