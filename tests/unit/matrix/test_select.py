"""Selecting cells never ends with nothing, and never loses a wish."""

from __future__ import annotations

import pytest

from vllm_parity.errors import ConfigError
from vllm_parity.matrix import (
    Cell,
    Execution,
    Family,
    Platform,
    Selection,
    Switch,
    Tier,
    load_matrix,
    select,
)

MATRIX = load_matrix()


def test_no_wish_takes_all_in_order() -> None:
    assert select(MATRIX, Selection()) == MATRIX.cells


@pytest.mark.parametrize("family", Family)
def test_family(family: Family) -> None:
    chosen = select(MATRIX, Selection(family=family))
    assert chosen == tuple(cell for cell in MATRIX.cells if cell.family is family)


def test_platform_and_tier() -> None:
    chosen = select(MATRIX, Selection(platform=Platform.CPU, tier=Tier.SMOKE))
    assert all(cell.platform is Platform.CPU and cell.is_in(Tier.SMOKE) for cell in chosen)


def ids(wanted: Selection) -> list[str]:
    return [cell.id for cell in select(MATRIX, wanted)]


def test_executions_and_caches_of_a_family_are_its_cells() -> None:
    found: list[Cell] = []
    for execution in Execution:
        for cache in Switch:
            wanted = Selection(family=Family.STREAMING, execution=execution, prefix_cache=cache)
            found += select(MATRIX, wanted)
    whole = select(MATRIX, Selection(family=Family.STREAMING))
    assert sorted(cell.id for cell in found) == sorted(cell.id for cell in whole)


def test_cells_are_meant_by_name_unless_a_tier_alone_is_named() -> None:
    assert Selection(family=Family.STREAMING).by_name
    assert Selection(tier=Tier.PR, cells=("*-image-*",)).by_name
    assert not Selection(tier=Tier.PR, platform=Platform.CUDA).by_name


def test_id_takes_that_cell_alone() -> None:
    wanted = "cpu-batch_invariance-text-eager-apc_off"
    assert ids(Selection(cells=(wanted,))) == [wanted]


def test_patterns_add_up_and_other_wishes_narrow_them() -> None:
    patterns = ("*-image-*", "cpu-*-video-eager-*")
    assert ids(Selection(cells=patterns, tier=Tier.SMOKE)) == [
        "cpu-batch_invariance-image-eager-apc_off",
        "cpu-batch_invariance-video-eager-apc_off",
        "cpu-batch_invariance-image-compiled-apc_off",
    ]
    assert ids(Selection(cells=patterns, tier=Tier.SMOKE, execution=Execution.COMPILED)) == [
        "cpu-batch_invariance-image-compiled-apc_off"
    ]


def test_pattern_without_a_cell_is_refused_although_others_match() -> None:
    with pytest.raises(ConfigError) as caught:
        select(MATRIX, Selection(cells=("*-image-*", "cpu-streaming-txt-eager-apc_off")))
    message = str(caught.value)
    assert message.startswith("--cell: unknown cell 'cpu-streaming-txt-eager-apc_off'; allowed: ")
    assert (
        "; did you mean 'cpu-streaming-text-eager-apc_off'?; `vllm-parity plan --list`" in message
    )


def test_nothing_left_is_refused_in_plain_words() -> None:
    wanted = Selection(platform=Platform.ROCM, tier=Tier.SMOKE, cells=("*-image-*", "*-video-*"))
    with pytest.raises(ConfigError) as caught:
        select(MATRIX, wanted)
    assert str(caught.value) == (
        "no cell of matrix.toml has tier smoke, platform rocm, cells *-image-* or *-video-*;"
        " see `vllm-parity plan` for those there are"
    )
