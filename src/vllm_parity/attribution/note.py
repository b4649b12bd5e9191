"""The lab note: what was asked, what was run, what it shows, and a line for a bug report."""

from __future__ import annotations

import math
import string
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vllm_parity.attribution.answer import Kind
from vllm_parity.attribution.search import counting
from vllm_parity.attribution.suspects import shown_value
from vllm_parity.judge.layout import row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vllm_parity.attribution.live import Question, Setting
    from vllm_parity.attribution.search import Finding
    from vllm_parity.attribution.suspects import Suspect

_ADVICE = {
    Kind.NONDETERMINISTIC: "A tolerance would only hide it: how often it comes is measured by"
    " `vllm-parity flake`.",
    Kind.NOISE: "The contrast is not to blame: the reference alone is not the same twice.",
    Kind.NONE: "What was reported is not there on this machine, with these versions.",
}


@dataclass(frozen=True, kw_only=True)
class Note:
    """All that a search was about. `settings` are in the order in which they were measured."""

    question: Question
    finding: Finding
    settings: Sequence[Setting]
    folder: str

    @property
    def culprits(self) -> list[list[str]]:
        """The effective knobs of the sets that were found."""
        knobs = {one.name: one.knob for one in self.question.suspects}
        return [[knobs[name] for name in names] for names in self.finding.answer.culprits]

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON has it, with what it rests on."""
        finding, question = self.finding, self.question
        low, high = finding.rate.interval()
        return {
            **finding.answer.as_dict(),
            "culprits": self.culprits,
            "cell": question.base.cell.id,
            "contract": question.contract.as_fields(),
            "controls": {
                "events": finding.rate.events,
                "runs": finding.rate.runs,
                "interval": [low, high],
            },
            "probes": [_probe(one) for one in self.settings],
            "alone": [self._number(kept) for kept in finding.alone],
            "without": None if finding.without is None else self._number(finding.without),
            "not_tried": dict(_not_tried(self)),
            "report": report_line(self),
        }

    def _number(self, kept: frozenset[str]) -> int | None:
        """Return the number of the setting that kept these suspects."""
        for one in self.settings:
            changed = {suspect.name for suspect in one.changed}
            if {suspect.name for suspect in self.question.suspects} - changed == kept:
                return one.number
        return None

    def text(self) -> str:
        """Return the note for people."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        finding, question = self.finding, self.question
        plan = question.base
        yield f"ATTRIBUTION  {plan.cell.id}"
        yield row("question", _question(question))
        yield row("answer", _answer(self), lines=4)
        yield row("evidence", finding.answer.evidence, lines=6)
        yield (
            row("controls", _controls(self.settings[0], finding), lines=4) if self.settings else ""
        )
        yield from _suspects(question)
        yield from _table(self)
        yield from self._proofs()
        for name, reason in _not_tried(self):
            yield row("not tried", f"{name}: {reason}")
        if finding.answer.kind in _ADVICE:
            yield row("what now", _ADVICE[finding.answer.kind])
        if finding.open is not None and finding.answer.kind is Kind.UNDETERMINED:
            yield row("run next", _changed(question.suspects, finding.open))
        yield row("records", self.folder)
        # Never folded: it is there to be copied.
        yield "for a bug report"
        yield report_line(self)

    def _proofs(self) -> Iterator[str]:
        by_number = {one.number: one for one in self.settings}
        for names, kept in zip(self.finding.answer.culprits, self.finding.alone, strict=False):
            number = self._number(kept)
            if number is not None:
                words = f"with {_kept(self.question, names)} and all else at its other value"
                yield row("proof: enough", f"{words}: {_shown(by_number[number])} (#{number})")
        number = None if self.finding.without is None else self._number(self.finding.without)
        if number is not None:
            words = f"as the cell is, but {_changed(self.question.suspects, self.finding.without)}"
            yield row("proof: needed", f"{words}: {_shown(by_number[number])} (#{number})")


def report_line(note: Note) -> str:
    """Return one line with versions, settings, size and cause."""
    question, finding = note.question, note.finding
    cell, environment = question.base.cell, question.environment
    versions = ", ".join(
        f"{name} {environment[name]}" for name in ("vllm", "torch", "python") if name in environment
    )
    place = ", ".join(environment[name] for name in ("device", "arch") if name in environment)
    size = _size(note.settings[0]) if note.settings else math.nan
    apart = "" if math.isnan(size) else f" by up to {size:.2g}"
    pair = _contrast(question)
    cause = _answer(note)
    return (
        f"{versions} on {place}: {cell.id} ({cell.model}): logprobs differ{apart} between {pair}"
        f" in {finding.rate.events} of {finding.rate.runs} runs; cause: {cause}"
    )


def _question(question: Question) -> str:
    own = question.base.contract
    if question.contract is own:
        return f"why do {_contrast(question)} differ under the cell's contract {own.name}?"
    return (
        f"why do {_contrast(question)} differ at all? (bitwise; the cell's own contract,"
        f" {own.name}, holds)"
    )


def _contrast(question: Question) -> str:
    plan = question.base
    sides = []
    for arm in (plan.reference, plan.candidate):
        settings = arm.engine | arm.run
        words = [f"{knob}={settings[knob]}" for knob in plan.contrast if knob in settings]
        sides.append(" ".join(words) or f"no {plan.contrast[0]}")
    return " and ".join(sides)


def _answer(note: Note) -> str:
    answer = note.finding.answer
    sets = [_kept(note.question, names) for names in answer.culprits]
    if not sets:
        return str(answer.kind)
    if answer.kind in {Kind.NONDETERMINISTIC, Kind.NOISE}:
        return f"{answer.kind}, while {' or '.join(sets)}"
    each = ", or by itself ".join(sets)
    return f"{answer.kind}: {each}"


def _controls(base: Setting, finding: Finding) -> str:
    labels = {one.label for one in counting(run.outcome for run in base.runs)}
    return (
        f"the cell itself, {len(base.runs)} runs in two processes: {_counted(base)};"
        f" {len(labels)} different outputs; {finding.rate.words}"
    )


def _suspects(question: Question) -> Iterator[str]:
    yield "suspects"
    for letter, one in zip(string.ascii_lowercase, question.suspects, strict=False):
        value = effective(question, one)
        yield row(f"  {letter}", f"{one.name}: {value}, or {_other(question, one)}; {one.why}")


def effective(question: Question, suspect: Suspect) -> str:
    """Return a suspect's value in the cell: by the engine's own word where it has one."""
    cell, knobs = question.base.cell, question.knobs
    if suspect.axes:
        return ", ".join(f"{name}={getattr(cell, name)}" for name in suspect.axes)
    if suspect.speculative:
        config = knobs.get("speculative_config") or {}
        return ", ".join(f"{name}={config.get(name)}" for name in suspect.speculative)
    known = {name: knobs.get(name) for name in suspect.engine}
    known |= {name: knobs.get(f"env.{name}") for name in suspect.variables}
    return ", ".join(
        f"{name}={'default' if value is None else shown_value(value)}"
        for name, value in known.items()
    )


def _other(question: Question, suspect: Suspect) -> str:
    base = question.base
    words = suspect.other.replace("$requests", str(len(base.requests)))
    return words.replace("$max_model_len", str(base.reference.engine.get("max_model_len")))


def _kept(question: Question, names: Sequence[str]) -> str:
    by_name = {one.name: one for one in question.suspects}
    return " and ".join(effective(question, by_name[name]) for name in names)


def _changed(suspects: Sequence[Suspect], kept: frozenset[str] | None) -> str:
    changed = [one.other for one in suspects if kept is not None and one.name not in kept]
    return ", ".join(changed) or "nothing changed"


def _table(note: Note) -> Iterator[str]:
    """Return a row for each setting: which suspects are as in the cell, and what came of it."""
    letters = string.ascii_lowercase[: len(note.question.suspects)]
    head = f"{'probes':<18}  #  {letters}   runs  {'showed':<24}"
    yield f"{head}{'worst abs':>10}{'s':>8}"
    for setting in note.settings:
        changed = {one.name for one in setting.changed}
        marks = "".join("." if s.name in changed else "x" for s in note.question.suspects)
        spent = [run.seconds for run in setting.runs]
        seconds = sum(one for one in spent if one is not None)
        shown = f"{seconds:8.1f}" if any(one is not None for one in spent) else "recorded"
        yield (
            f"{'':<18}{setting.number:>3}  {marks}   {len(setting.runs):>4}  {_shown(setting):<24}"
            f"{_size(setting):>10.2g}{shown:>8}"
        )
    yield f"{'':<18}x as in the cell, . at its other value"


def _size(setting: Setting) -> float:
    """Return the largest difference of any run, NaN where no value was compared."""
    worst = [run.judgement.worst for run in setting.runs]
    return max((one.abs for one in worst if one is not None), default=math.nan)


def _shown(setting: Setting) -> str:
    signs = {run.outcome.sign for run in setting.runs}
    return str(setting.runs[0].outcome.sign) if len(signs) == 1 else _counted(setting)


def _counted(setting: Setting) -> str:
    signs = Counter(run.outcome.sign for run in setting.runs)
    return ", ".join(f"{count} {sign}" for sign, count in signs.items())


def _not_tried(note: Note) -> Iterator[tuple[str, str]]:
    for one in note.question.cleared:
        yield one.name, f"the cell has {_other(note.question, one)} as it is"
    for name in note.finding.dropped:
        yield name, f"with its other value no run counts: {_void(note, name)}"


def _void(note: Note, name: str) -> str:
    for setting in note.settings:
        if [one.name for one in setting.changed] == [name]:
            reasons = setting.runs[0].judgement.reasons
            return reasons[0].message.splitlines()[0] if reasons else "no reason was given"
    return "see the records"


def _probe(setting: Setting) -> dict[str, Any]:
    return {
        "number": setting.number,
        "changed": [one.name for one in setting.changed],
        "showed": [run.outcome.sign for run in setting.runs],
        "records": [run.name for run in setting.runs],
    }
