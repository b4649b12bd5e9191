"""One screen that ends the argument: what differs, where, by how much, and how to see it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.judge.closeup import close_up
from vllm_parity.judge.findings import Code
from vllm_parity.judge.layout import row
from vllm_parity.judge.pairing import shown
from vllm_parity.schema import Kind
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from vllm_parity.judge.findings import Judgement, Reason
    from vllm_parity.schema import Contract, Observation

_REASONS = 10
_LOG_LINES = 14

_ADVICE = {
    Verdict.NOT_RUN: "Nothing was run, so nothing is known.",
    Verdict.ERROR: "There is nothing to compare. Mend what failed, and run the cell again.",
    Verdict.INVALID_PAIR: (
        "The arms differ in more or less than the contrast, so nothing could be put down to it. "
        "Make them agree, or name what the engine itself moves along in `follows`."
    ),
    Verdict.NOISY: (
        "The reference does not even repeat itself, so the contrast is not to blame. "
        "Look for what differs between two runs: caches, scheduling, the order of requests."
    ),
    Verdict.UNVERIFIED: (
        "Nothing that was compared is wrong, but not all of what should be was. "
        "That is no pass: supply what is missing and run the cell again."
    ),
}

_HINTS = {
    Code.WITNESS: "witness: choose a workload or settings under which it does happen.",
    Code.MISSING_LOGPROBS: "missing_logprobs: ask for logprobs in both arms.",
    Code.MISSING_TOKENS: "missing_tokens: ask for token ids, or use a contract that needs none.",
    Code.SHORT: "short: ignore EOS, or expect no fixed length.",
    Code.NO_SIGNAL: "no_signal: a model this sure of itself shows nothing; use another.",
    Code.MIN_COMPARED: "min_compared: a prompt without a tie, or a contract that asks for less.",
    Code.TRUNCATED_STREAM: "truncated_stream: the server stopped in the middle; see its log.",
}


def explain(observation: Observation, judgement: Judgement, *, command: str | None = None) -> str:
    """Return a text of at most one screen that says why the verdict is what it is.

    `command` is what runs this cell again; it is shown last.
    """
    about = f"{observation.family} on {observation.platform}"
    lines = [
        f"{judgement.verdict.upper()}  {observation.cell}  ({about})",
        row("contrast", _contrast(observation)),
        row("contract", _contract(observation.contract)),
    ]
    if judgement.verdict is Verdict.NOT_RUN:
        lines.append(row("reason", observation.not_run or "none was given"))
    lines += _failure(judgement) if judgement.verdict is Verdict.ERROR else _reasons(judgement)
    lines += close_up(observation, judgement)
    if judgement.verdict not in {Verdict.NOT_RUN, Verdict.ERROR}:
        lines += _amount(judgement)
    if judgement.verdict in _ADVICE:
        lines.append(row("what now", _ADVICE[judgement.verdict]))
        lines += [row("", _HINTS[code]) for code in _HINTS if code in judgement.codes]
    if command:
        # Never folded: it is there to be copied.
        lines += ["run again", command]
    return "\n".join(lines)


def _contrast(observation: Observation) -> str:
    arms = observation.arms
    if arms.reference is None or arms.candidate is None:
        return " and ".join(observation.contrast)
    return "; ".join(
        f"{knob}: {shown(arms.reference.knobs.get(knob))} in the reference, "
        f"{shown(arms.candidate.knobs.get(knob))} in the candidate"
        for knob in observation.contrast
    )


def _contract(contract: Contract) -> str:
    origin = "from the observation"
    if contract.name is not None:
        origin = f"named {contract.name} in contracts.toml"
    meaning = {
        Kind.BITWISE: "same tokens, same lists, same values",
        Kind.CLOSE: f"abs(a - b) <= {contract.atol} + {contract.rtol} * abs(a), "
        f"ties within {contract.gap}",
        Kind.TOKENS: f"same tokens, ties within {contract.gap}",
        Kind.TEXT: "text, finish reason and usage alone",
    }
    return f"{contract.kind}: {meaning[contract.kind]}  ({origin})"


def _failure(judgement: Judgement) -> list[str]:
    """Show an error line by line, since the last lines of a log follow what happened."""
    (reason,) = judgement.reasons
    first, *log = reason.message.splitlines() or [""]
    return [row(str(reason.code), first), *(row("", line, lines=2) for line in log[-_LOG_LINES:])]


def _reasons(judgement: Judgement) -> list[str]:
    """List findings, each kind before the second of any, so that many of one hide no other."""
    firsts = {reason.code: reason for reason in reversed(judgement.reasons)}
    kinds = [firsts[code] for code in dict.fromkeys(r.code for r in judgement.reasons)]
    others = [reason for reason in judgement.reasons if firsts[reason.code] is not reason]
    # At most as many lines as reasons would take: the first may be long, the others are cut.
    listed = (kinds + others)[: max(_REASONS, len(kinds))]
    lines = [
        row(str(reason.code), f"{_place(reason)}{reason.message}", lines=3 if number < 4 else 1)
        for number, reason in enumerate(listed)
    ]
    left = len(judgement.reasons) - len(listed)
    if left:
        lines.append(row("", f"and {left} more; --json lists them all"))
    return lines


def _place(reason: Reason) -> str:
    if reason.request is None:
        return ""
    parts = [f"request {reason.request}"]
    if reason.output is not None:
        parts.append(f"output {reason.output}")
    if reason.position is not None:
        parts.append(f"position {reason.position}")
    return ", ".join(parts) + ": "


def _amount(judgement: Judgement) -> list[str]:
    compared, worst = judgement.compared, judgement.worst
    lines = [
        row(
            "compared",
            f"{compared.requests} requests, {compared.positions} positions, "
            f"{compared.logprobs} logprobs",
        )
    ]
    if worst is not None and worst.abs == 0:
        lines.append(row("worst", "no value that was compared differs at all"))
    elif worst is not None:
        lines.append(
            row(
                "worst",
                f"abs {worst.abs:.6g} of {worst.allowed:.6g} allowed, rel {worst.rel:.3g}, "
                f"ULP {worst.ulp}: "
                f"request {worst.request}, output {worst.output}, position {worst.position}",
            )
        )
    return lines
