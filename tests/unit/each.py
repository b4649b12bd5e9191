"""Tests that hold for many cells: one test each, which names the cell on which it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vllm_parity.matrix import Cell


def each(cells: Iterable[Cell]) -> Callable[[Callable[[Cell], None]], Callable[[], None]]:
    """Turn a test of a cell into a test of all `cells`, of which there must be some."""
    listed = list(cells)
    assert listed

    def decorate(test: Callable[[Cell], None]) -> Callable[[], None]:
        def run() -> None:
            for cell in listed:
                try:
                    test(cell)
                except BaseException as error:
                    error.add_note(f"cell: {cell.id}")
                    raise

        # Not functools.wraps: pytest would see the parameter `cell`, and look for such a fixture.
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate
