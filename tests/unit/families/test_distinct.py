"""What plans share, and in which order they run."""

from __future__ import annotations

import itertools

import pytest

from vllm_parity.families import load_config, make_plan
from vllm_parity.families.distinct import distinct, reference_key, together
from vllm_parity.matrix import Family, Platform, Selection, select

CONFIG = load_config()


@pytest.mark.parametrize("platform", Platform)
@pytest.mark.parametrize("family", Family)
def test_plans_of_one_engine_follow_each_other_and_none_is_lost(
    platform: Platform, family: Family
) -> None:
    cells = select(CONFIG.matrix, Selection(platform=platform, family=family))
    plans = [make_plan(cell, CONFIG) for cell in cells]
    ordered = together(plans)
    assert sorted(plan.cell.id for plan in ordered) == sorted(cell.id for cell in cells)
    keys = [reference_key(plan) for plan in ordered]
    assert len(list(itertools.groupby(keys))) == len(set(keys)) < len(keys)
    assert list(dict.fromkeys(keys)) == list(dict.fromkeys(map(reference_key, plans)))


def test_servers_and_engines_are_counted_apart() -> None:
    cells = select(CONFIG.matrix, Selection(platform=Platform.CPU))
    counts = distinct(make_plan(cell, CONFIG) for cell in cells if cell.family is Family.STREAMING)
    assert counts["servers"] > 6
    assert counts["hosts"] == counts["engines"] == 0
