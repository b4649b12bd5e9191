"""Each cause has its class, its exit code, and a message that survives a trip between processes."""

from __future__ import annotations

import pickle
import re

import pytest

from vllm_parity import errors
from vllm_parity.errors import EngineError, Failure, HardwareError, ParityError, StartError
from vllm_parity.verdict import Verdict


def causes() -> list[type[ParityError]]:
    return ParityError.__subclasses__()


def test_docstring_lists_every_cause_with_its_exit_code() -> None:
    listed = re.findall(r"── (\w+) +(\d+) ", errors.__doc__ or "")
    all_of_them = [*causes(), *EngineError.__subclasses__()]
    assert dict(listed) == {one.__name__: str(one.exit_code) for one in all_of_them}


def test_bad_input_is_2_and_the_others_have_codes_of_their_own() -> None:
    codes = {one: one.exit_code for one in causes()}
    own = {one: code for one, code in codes.items() if code != 2}
    assert own == {EngineError: 7, HardwareError: 4}
    assert ParityError.exit_code == 2


def test_only_an_engine_shares_its_code_with_a_verdict() -> None:
    codes = {verdict.exit_code for verdict in Verdict}
    assert {one for one in causes() if one.exit_code in codes} == {EngineError}
    assert Verdict.ERROR.exit_code == EngineError.exit_code


@pytest.mark.parametrize("cause", [EngineError, StartError])
@pytest.mark.parametrize("kind", Failure)
def test_engine_error_can_be_pickled(kind: Failure, cause: type[EngineError]) -> None:
    error = pickle.loads(pickle.dumps(cause("died\nlog", kind=kind)))  # noqa: S301 - ours
    assert type(error) is cause
    assert (str(error), error.kind, error.exit_code) == ("died\nlog", kind, 7)


@pytest.mark.parametrize("cause", [one for one in causes() if one is not EngineError])
def test_other_errors_can_be_pickled(cause: type[ParityError]) -> None:
    error = pickle.loads(pickle.dumps(cause("what, where, what to do")))  # noqa: S301 - ours
    assert (type(error), str(error)) == (cause, "what, where, what to do")


@pytest.mark.parametrize(
    ("message", "headline"), [("died\nlast lines\nof its log", "died"), ("died", "died")]
)
def test_headline_leaves_the_log_out(message: str, headline: str) -> None:
    assert EngineError(message, kind=Failure.DIED).headline == headline
