"""Labelled lines that fit a terminal, whatever a file holds."""

from __future__ import annotations

import textwrap

WIDTH = 118
LABEL = 18


def row(label: str, text: str, *, lines: int = 3) -> str:
    """Return a labelled line, folded into at most so many and cut beyond them."""
    # Whatever a file holds, it does not get to move the cursor of a terminal.
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    folded = textwrap.wrap(
        printable,
        WIDTH - LABEL,
        max_lines=lines,
        placeholder="...",
        break_on_hyphens=False,
    )
    first, *rest = folded or [""]
    return "\n".join([f"{label:<{LABEL}}{first}", *(" " * LABEL + line for line in rest)])
