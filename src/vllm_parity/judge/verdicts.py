"""From everything that was found to one verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.judge.arms import compare_arms
from vllm_parity.judge.findings import DIVERGED, INVALID, MISSING, Code, Judgement, Reason
from vllm_parity.judge.pairing import check_knobs, check_prompts
from vllm_parity.judge.witness import check_witnesses, parse_requirement
from vllm_parity.observation import check_observation
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from vllm_parity.judge.tally import Tally
    from vllm_parity.schema import Arm, Observation


def judge(observation: Observation) -> Judgement:
    """Judge one cell.

    Raises FormatError where the observation is not what the format says; one that was loaded
    from a file may still hold a response that is no chat completion, or a requirement that
    cannot be read.
    """
    check_observation(observation)
    for text in observation.require:
        parse_requirement(text)
    if observation.not_run is not None:
        return Judgement(cell=observation.cell, verdict=Verdict.NOT_RUN)
    reference, candidate = observation.arms.reference, observation.arms.candidate
    if observation.error is not None or reference is None or candidate is None:
        return _failed(observation)
    tally = compare_arms(observation, reference, candidate)
    check_knobs(observation, reference, candidate, tally)
    check_prompts(reference, candidate, tally)
    check_witnesses(observation, tally)
    noise = _noise(observation, reference, tally)
    reasons = tuple(tally.found())
    return Judgement(
        cell=observation.cell,
        verdict=_verdict(frozenset(reason.code for reason in reasons), noise),
        reasons=reasons,
        compared=tally.compared(),
        worst=tally.worst,
    )


def _failed(observation: Observation) -> Judgement:
    error = observation.error
    if error is not None:
        where = f"{error.arm}: " if error.arm else ""
        message = f"{where}{error.kind}: {error.message}"
    else:
        missing = "reference" if observation.arms.reference is None else "candidate"
        message = f"there is no {missing}"
    reason = Reason(code=Code.ENGINE, message=message)
    return Judgement(cell=observation.cell, verdict=Verdict.ERROR, reasons=(reason,))


def _noise(observation: Observation, reference: Arm, tally: Tally) -> frozenset[Code]:
    """Return in which ways the reference, run once more, differs from itself."""
    control = observation.arms.control
    if control is None:
        return frozenset()
    own = compare_arms(observation, reference, control, lenient=True, streamed=(False, False))
    found = own.found()
    codes = {reason.code for reason in found}
    if codes & MISSING:
        return frozenset()
    noise = codes & DIVERGED
    if noise:
        first = next(reason for reason in found if reason.code in noise)
        where = f" in {first.request}" if first.request else ""
        names = ", ".join(sorted(noise))
        message = f"the reference run once more differs ({names}); first{where}: {first.message}"
        tally.add(Code.CONTROL, message.replace("the candidate", "the control"))
    return frozenset(noise)


def _verdict(codes: frozenset[Code], noise: frozenset[Code]) -> Verdict:
    if codes & INVALID:
        return Verdict.INVALID_PAIR
    wrong = codes & DIVERGED
    if noise and wrong <= noise:
        return Verdict.NOISY
    if wrong:
        return Verdict.DIVERGED
    return Verdict.UNVERIFIED if codes else Verdict.PASS
