"""Named contracts: none loads that is wrong, or looser than its evidence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vllm_parity.configs import config_path
from vllm_parity.contracts import Contracts, Place, load_contracts, logit_step
from vllm_parity.errors import ConfigError
from vllm_parity.matrix.axes import Dtype
from vllm_parity.observation import Contract

EVIDENCE = 'measured = "1e-7"\ndate = 2026-11-30\nsource = "here"\n'


def at(*values: str | None) -> Place:
    """Return a place: family, platform, and what else is given of dtype, mode and execution."""
    names = ("family", "platform", "dtype", "batch_invariant", "execution")
    return Place(**dict(zip(names, values, strict=False)))  # type: ignore[arg-type]


def load(tmp_path: Path, text: str) -> Contracts:
    path = tmp_path / "contracts.toml"
    path.write_text(text, encoding="utf-8")
    return load_contracts(path)


def test_the_tools_own_contracts_load_and_mean_something() -> None:
    contracts = load_contracts()
    assert contracts.path == str(config_path("contracts.toml"))
    for contract in contracts.by_name.values():
        made = Contract(**contract.as_fields())
        assert made.name == contract.name


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("batch_invariance", "cpu", "float32"), "cpu-batch-float32"),
        (("batch_invariance", "cpu", "bfloat16"), "strict"),
        (("batch_invariance", "cpu", None), "strict"),
        (("batch_invariance", "cuda", "bfloat16", "on"), "batch-invariant-mode"),
        (("batch_invariance", "cuda", "bfloat16", "off"), "strict"),
        (("spec_decode", "cuda", "bfloat16", "on", "eager"), "batch-invariant-mode"),
        (("spec_decode", "cuda", "bfloat16", "on", "graph"), "cuda-spec-compiled-apart"),
        (("batch_invariance", "cuda", "bfloat16", "on", "graph"), "batch-invariant-mode"),
        (("spec_decode", "cuda", "bfloat16", "off"), "cuda-spec-bfloat16"),
        (("spec_decode", "rocm", "bfloat16"), "rocm-spec-bfloat16"),
        (("streaming", "cuda", "bfloat16"), "strict"),
    ],
)
def test_the_best_fit_is_found(place: tuple[str | None, ...], name: str) -> None:
    assert load_contracts().find(at(*place)).name == name


def test_the_platform_counts_most(tmp_path: Path) -> None:
    entry = 'kind = "bitwise"\nwhy = "x"\n'
    contracts = load(
        tmp_path,
        f'[a]\n{entry}platform = "cpu"\n[b]\n{entry}family = "streaming"\ndtype = "float32"\n',
    )
    assert contracts.find(at("streaming", "cpu", "float32")).name == "a"
    assert contracts.find(at("streaming", "cuda", "float32")).name == "b"
    with pytest.raises(ConfigError, match="no contract fits family spec_decode, platform cuda"):
        contracts.find(at("spec_decode", "cuda"))


def test_names() -> None:
    contracts = load_contracts()
    assert contracts.named("strict").kind == "bitwise"
    with pytest.raises(ConfigError, match="no contract 'loose'; there are strict, "):
        contracts.named("loose")


CLOSE = f'[x]\nkind = "close"\nwhy = "w"\natol = 1e-5\nrtol = 0\n{EVIDENCE}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x", "is not TOML"),
        ("x = 7", "x = 7 must be a table, not a whole number"),
        ("[x]", "x: the key 'kind' is missing"),
        (
            '[x]\nkind = "loose"',
            "x: kind: unknown value 'loose'; allowed: bitwise, close, to",
        ),
        ('[x]\nkind = ["close"]', r"kind = \['close'\] must be a string, not a list"),
        ('[x]\nkind = "bitwise"', "x: the key 'why' is missing"),
        (
            '[x]\nkind = "bitwise"\nwhy = "w"\natol = 1.0',
            "x: unknown key 'atol'; allowed: kind, dtype, why, family, platform, batch_inv",
        ),
        (CLOSE.replace("atol = 1e-5\n", ""), "the key 'atol' is missing"),
        (CLOSE.replace('measured = "1e-7"\n', ""), "the key 'measured' is missing"),
        (CLOSE.replace('source = "here"\n', ""), "the key 'source' is missing"),
        (CLOSE.replace("date = 2026-11-30\n", ""), "the key 'date' is missing"),
        (CLOSE.replace("2026-11-30", '"today"'), "date = 'today' must be a date, not a string"),
        (CLOSE.replace("2026-11-30", "2026-11-30T10:00:00"), "must be a date, not a datetime"),
        (CLOSE.replace('"here"', '" "'), "source must say something"),
        (CLOSE.replace("1e-5", "-1e-5"), "atol = -1e-05 must be at least 0"),
        (CLOSE.replace("1e-5", "nan"), "atol = nan must be at least 0"),
        (CLOSE.replace("1e-5", "inf"), "atol = inf must be at least 0"),
        (CLOSE.replace("1e-5", "true"), "atol = True must be a number, not true or false"),
        (CLOSE.replace("1e-5", '"1e-5"'), "atol = '1e-5' must be a number, not a string"),
        (CLOSE + "min_compared = 1.5", "min_compared = 1.5 must be at least 0 and at most 1"),
        (CLOSE + 'family = "other"', "family: unknown value 'other'; allowed: batch_invariance, "),
        (CLOSE + 'platform = "tpu"', "platform: unknown value 'tpu'; allowed: cpu, "),
        (CLOSE + "dtype = 7", "dtype = 7 must be a string"),
        (CLOSE + CLOSE.replace("[x]", "[y]"), r"\[x\] and \[y\] hold for the same cells"),
    ],
)
def test_what_does_not_load(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as raised:
        load(tmp_path, text)
    assert str(tmp_path / "contracts.toml") in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_contracts(tmp_path / "none.toml")


def test_a_noxfile_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; from vllm_parity.contracts import load_contracts; load_contracts();"
        "assert not {'msgspec', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


STEPS = """[x]
kind = "close"
dtype = "bfloat16"
steps = 3
logits_below = 16.0
why = "w"
measured = "2 steps"
date = 2026-12-01
source = "s"
"""


def test_steps_of_a_logit_stand_for_atol(tmp_path: Path) -> None:
    found = load(tmp_path, STEPS).named("x")
    # In bfloat16, which has 8 bits of significand, 8 to 16 are 2^-4 apart.
    assert (found.atol, found.rtol, found.steps) == (0.1875, 0.0, 3)


@pytest.mark.parametrize(
    ("dtype", "step"),
    [(Dtype.BFLOAT16, 2**-4), (Dtype.FLOAT16, 2**-7), (Dtype.FLOAT32, 2**-20)],
)
def test_logit_step_is_what_numpy_and_ieee_say(dtype: Dtype, step: float) -> None:
    assert logit_step(dtype, 16.0) == step
    if dtype is not Dtype.BFLOAT16:
        assert logit_step(dtype, 16.0) == np.spacing(np.dtype(dtype.value).type(8.0))


@pytest.mark.parametrize(
    "text",
    [
        STEPS.replace('dtype = "bfloat16"\n', ""),
        STEPS.replace("16.0", "12.0"),
        STEPS + "atol = 1.0\n",
        STEPS.replace('"close"', '"tokens"'),
    ],
)
def test_steps_that_stand_for_nothing_do_not_load(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="steps: "):
        load(tmp_path, text)
