"""Reading the small files of ``/proc`` and ``/sys``, any of which may be missing or refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_text(path: Path) -> str | None:
    """Return what a file says, without the space around it; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """Return the whole number that a file holds; None where it holds none."""
    return as_number(read_text(path))


def as_number(text: str | None) -> int | None:
    """Return the whole number, not negative, that `text` is; None where it is none.

    >>> as_number("12"), as_number("max"), as_number(None)
    (12, None, None)
    """
    # A kernel's numbers have 20 digits at most; int() refuses thousands.
    if text is None or not (text.isascii() and text.isdecimal() and len(text) < 32):
        return None
    return int(text)


def read_pairs(path: Path) -> dict[str, str] | None:
    """Return a file of lines ``name value`` as a dictionary; None where it cannot be read."""
    text = read_text(path)
    if text is None:
        return None
    split = (line.split(None, 1) for line in text.splitlines())
    return {words[0].removesuffix(":"): words[1] for words in split if len(words) == 2}


def pci_devices(root: Path, vendor: str, classes: tuple[str, ...]) -> list[str]:
    """Return the PCI addresses of a vendor's devices, where classes begin such as ``0x03``."""
    return [
        path.name
        for path in sorted(root.glob("sys/bus/pci/devices/*"))
        if read_text(path / "vendor") == vendor
        and (read_text(path / "class") or "").startswith(classes)
    ]
