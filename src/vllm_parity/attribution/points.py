"""From observations to the points of a grid: which knobs vary, and what each run showed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_parity.attribution.grid import Point, Sign
from vllm_parity.errors import FormatError
from vllm_parity.judge.arms import compare_arms
from vllm_parity.judge.command import judge_file
from vllm_parity.judge.findings import DIVERGED, Code
from vllm_parity.observation import load_observation
from vllm_parity.report.settings import as_text
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vllm_parity.judge import Judgement
    from vllm_parity.schema import Arm, Observation

_SIGNS = {
    Verdict.PASS: Sign.SAME,
    Verdict.DIVERGED: Sign.DIVERGED,
    Verdict.NOISY: Sign.NOISY,
}
"""What a verdict shows; any other shows nothing."""

_OWN = "vllm_parity"
"""What this project says of itself is no setting of vLLM's."""


def sign_of(verdict: Verdict) -> Sign:
    """Return what a verdict shows of a cause."""
    return _SIGNS.get(verdict, Sign.VOID)


def points_of(
    judged: Sequence[tuple[str, Observation, Judgement]],
    moves: Iterable[tuple[str, ...]] = (),
) -> list[Point]:
    """Return observations as points; only the settings in which those that count differ are kept.

    Args:
        judged: the name of each, the observation and its judgement.
        moves: knobs that go along with each other, the one that is set first: they count as one.

    """
    counted = [one for one in judged if sign_of(one[2].verdict) is not Sign.VOID]
    settings = [_settings(observation) for _, observation, _ in counted]
    varying = _varying(settings)
    names = _named(varying, moves)
    labels = Labels()
    return [
        Point(
            settings={name: _together(one, parts) for name, parts in names.items()},
            sign=sign_of(judgement.verdict),
            label=labels.of(observation),
            name=file,
        )
        for (file, observation, judgement), one in zip(counted, settings, strict=True)
    ]


def load_points(files: Sequence[str], moves: Iterable[tuple[str, ...]] = ()) -> list[Point]:
    """Read and judge the observations of one cell.

    Raises:
        FormatError: where a file is no observation, or they are of different cells.

    """
    loaded = [(file, load_observation(file)) for file in files]
    cells = {observation.cell: file for file, observation in loaded}
    if len(cells) > 1:
        (one, first), (other, second) = list(cells.items())[:2]
        msg = (
            f"{second}: expected observations of one cell under different settings, got {other},"
            f" and {one} in {first}"
        )
        raise FormatError(msg)
    judged = [(file, one, judge_file(file, one)) for file, one in loaded]
    return points_of(judged, moves)


def _settings(observation: Observation) -> dict[str, str]:
    """Return all that may be a cause: the knobs, the contrast's of both arms, the environment."""
    arms = observation.arms
    found: dict[str, Any] = {}
    if arms.candidate is not None:
        found |= arms.candidate.knobs
    if arms.reference is not None:
        moved = {*observation.contrast, *observation.follows}
        found |= {f"reference.{k}": v for k, v in arms.reference.knobs.items() if k in moved}
    environment = {
        f"environment.{name}": value
        for name, value in observation.environment.items()
        if not name.startswith(_OWN)
    }
    known = {name: as_text(value) for name, value in found.items() if value is not None}
    return known | environment


def _varying(settings: Sequence[Mapping[str, str]]) -> list[str]:
    names = sorted({name for one in settings for name in one})
    return [name for name in names if len({one.get(name) for one in settings}) > 1]


def _named(varying: list[str], moves: Iterable[tuple[str, ...]]) -> dict[str, list[str]]:
    """Return each knob with those that it moves along; what stands alone is its own."""
    left = list(varying)
    named: dict[str, list[str]] = {}
    for group in moves:
        parts = [name for name in group if name in left]
        if parts:
            named[parts[0]] = parts
            left = [name for name in left if name not in parts]
    return named | {name: [name] for name in left}


def _together(settings: Mapping[str, str], parts: list[str]) -> str:
    return " ".join(settings.get(name, "null") for name in parts)


class Labels:
    """Tells runs apart by what came out, arm by arm, under the contract of each."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[Observation, Arm]]] = {"reference": [], "candidate": []}

    def of(self, observation: Observation) -> str:
        """Return a label that two observations share where both their arms gave the same."""
        return "-".join(self._label(observation, arm) for arm in self._seen)

    def _label(self, observation: Observation, name: str) -> str:
        arm: Arm | None = getattr(observation.arms, name)
        if arm is None:
            return "none"
        known = self._seen[name]
        for number, (other, before) in enumerate(known):
            if _same(other, before, arm, streamed=name == "candidate"):
                return str(number)
        known.append((observation, arm))
        return str(len(known) - 1)


def _same(observation: Observation, left: Arm, right: Arm, *, streamed: bool) -> bool:
    # What is wrong in itself is so in both.
    tally = compare_arms(observation, left, right, lenient=True, streamed=(streamed, streamed))
    apart = DIVERGED - {Code.PROTOCOL, Code.NONFINITE}
    return not any(reason.code in apart for reason in tally.found())
