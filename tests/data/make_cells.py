"""Write cells.txt anew: the ids of all cells, with the models of the hub and the built-in ones.

Records are named by ids for years, so a changed id must be meant:

    python tests/data/make_cells.py && git diff tests/data/cells.txt
"""

from __future__ import annotations

from pathlib import Path

from vllm_parity.matrix import load_matrix

PATH = Path(__file__).parent / "cells.txt"


def ids() -> list[str]:
    """Return all ids, sorted."""
    matrix = load_matrix()
    return sorted({cell.id for one in (matrix, matrix.built_in()) for cell in one.cells})


if __name__ == "__main__":
    PATH.write_text("".join(f"{one}\n" for one in ids()), encoding="utf-8")
