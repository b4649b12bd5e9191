"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize(
    "name",
    [
        "hardware.architecture",
        "hardware.files",
        "logprobs",
        "parity",
        "rates",
        "schema",
        "judge.evidence",
        "judge.pairing",
        "judge.transcript",
        "judge.ulp",
        "judge.witness",
    ],
)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(f"vllm_parity.{name}")
    result = doctest.testmod(module, optionflags=FLAGS)
    assert result.attempted > 0
    assert result.failed == 0
