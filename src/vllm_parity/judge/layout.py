"""Labelled lines that fit a terminal, whatever a file holds."""

from __future__ import annotations

import textwrap

WIDTH = 118
LABEL = 18


def row(label: str, text: str, *, lines: int = 3) -> str:
    """Return a labelled line, folded into at most so many and cut beyond them."""
    folded = textwrap.wrap(
        printable(text),
        WIDTH - LABEL,
        max_lines=lines,
        placeholder="...",
        break_on_hyphens=False,
    )
    first, *rest = folded or [""]
    return "\n".join([f"{label:<{LABEL}}{first}", *(" " * LABEL + line for line in rest)])


def printable(text: str) -> str:
    """Return a text that cannot move the cursor of a terminal, whatever a file holds."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
