"""suspects.toml is read strictly, and each suspect has another value in some cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_parity.attribution.probes import is_other_already, key_of_plan, probe_plan
from vllm_parity.attribution.suspects import load_suspects, suspects_of
from vllm_parity.errors import ConfigError
from vllm_parity.families import load_config, make_plan
from vllm_parity.matrix import find_cell

CONFIG = load_config()
SUSPECTS = load_suspects()


def test_every_suspect_is_one_in_some_cell() -> None:
    used = {
        one.why + one.name for cell in CONFIG.matrix.cells for one in suspects_of(cell, SUSPECTS)
    }
    assert used == {one.why + one.name for one in SUSPECTS}


def test_every_cell_has_suspects_and_each_name_once() -> None:
    for cell in CONFIG.matrix.cells:
        names = [one.name for one in suspects_of(cell, SUSPECTS)]
        assert names
        assert len(set(names)) == len(names)


def test_a_probe_changes_what_its_suspects_own_and_nothing_else() -> None:
    cell = find_cell(CONFIG.matrix, "cpu-streaming-image_url-eager-apc_on-cold")
    base = make_plan(cell, CONFIG)
    for suspect in suspects_of(cell, SUSPECTS):
        plan = probe_plan(base, CONFIG, [suspect], base.contract)
        assert plan.requests is base.requests
        moved = {
            name
            for name in plan.candidate.engine.keys() | base.candidate.engine.keys()
            if plan.candidate.engine.get(name) != base.candidate.engine.get(name)
        }
        assert bool(moved) == bool(
            suspect.engine or suspect.name in {"dtype", "execution", "prefix_cache"}
        )
        assert (plan.variables != base.variables) == bool(suspect.variables)
        assert key_of_plan(plan, ()) != key_of_plan(base, ())
    assert key_of_plan(probe_plan(base, CONFIG, (), base.contract), ()) == key_of_plan(base, ())


def test_a_cache_that_is_off_must_be_seen_to_be_off() -> None:
    cell = find_cell(CONFIG.matrix, "cpu-streaming-image_url-eager-apc_on-cold")
    base = make_plan(cell, CONFIG)
    (cache,) = [one for one in suspects_of(cell, SUSPECTS) if one.name == "prefix_cache"]
    assert "prefix_cache_hits<=0" in probe_plan(base, CONFIG, [cache], base.contract).require


def test_a_knob_that_has_its_other_value_already_is_no_suspect() -> None:
    cell = find_cell(CONFIG.matrix, "cpu-batch_invariance-text-eager")
    plan = make_plan(cell, CONFIG)
    found = {one.name: one for one in suspects_of(cell, SUSPECTS)}
    assert is_other_already(found["async_scheduling"], plan, {"async_scheduling": False})
    assert not is_other_already(found["async_scheduling"], plan, {"async_scheduling": True})
    assert is_other_already(found["max_num_seqs"], plan, {"max_num_seqs": 4})
    assert is_other_already(found["cpu_threads"], plan, {"env.OMP_NUM_THREADS": "1"})
    assert not is_other_already(found["dtype"], plan, {"dtype": "bfloat16"})


ENTRY = """[[suspects]]
name = "a"
why = "b"
when = { platform = "cpu" }
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "suspects"),
        (f'{ENTRY}moves = ["a"]', "no other"),
        (f'{ENTRY}moves = ["a"]\naxes = {{ colour = "red" }}', "unknown axis 'colour'"),
        (f"{ENTRY}moves = []\nengine = {{ seed = 1 }}", "moves"),
    ],
)
def test_what_is_wrong_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "suspects.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_suspects(path)
