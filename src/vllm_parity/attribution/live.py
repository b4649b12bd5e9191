"""The lab: probes measured on real vLLM, each run kept as an observation, none measured twice."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from vllm_parity.attribution.points import Labels, sign_of
from vllm_parity.attribution.probes import is_other_already, key_of_plan, marked, probe_plan
from vllm_parity.attribution.search import Outcome, OutOfBudgetError
from vllm_parity.judge import judge
from vllm_parity.matrix import Family
from vllm_parity.matrix.environment import check_variables
from vllm_parity.observation import load_observation
from vllm_parity.schema import Contract
from vllm_parity.target import Engines
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vllm_parity.attribution.search import Kept
    from vllm_parity.attribution.suspects import Suspect
    from vllm_parity.contracts import NamedContract
    from vllm_parity.families import Config, Plan
    from vllm_parity.judge import Judgement
    from vllm_parity.results import Results
    from vllm_parity.schema import Observation
    from vllm_parity.target import Target


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run: its judgement and what it showed. `seconds` is None where it was found recorded."""

    judgement: Judgement
    outcome: Outcome
    name: str
    seconds: float | None = None


@dataclass
class Setting:
    """All runs with one choice of suspects, in order; `plan` is what each ran."""

    number: int
    cell: str
    changed: tuple[Suspect, ...]
    plan: Plan
    key: str
    runs: list[Measured] = field(default_factory=list)
    labels: Labels = field(default_factory=Labels)


@dataclass
class Bench:
    """Where probes run: engines that stay warm, a folder of records, a limit of time.

    `tell` is called with a setting after each of its runs.
    """

    target: Target
    results: Results
    deadline: float
    tell: Callable[[Setting], None] = lambda _: None

    def __post_init__(self) -> None:
        self.engines = Engines(self.target, self.results)

    def measure(self, setting: Setting) -> Measured:
        """Run a setting once more, or find that run recorded."""
        number = len(setting.runs) + 1
        name = f"{setting.key}-{number:03}"
        path = self.results.folder / f"{name}.json"
        seconds = None
        observation = load_observation(path) if path.exists() else None
        # What failed may have been the interruption itself.
        if observation is None or observation.error:
            observation, seconds = self.run(setting.plan, self._expected(setting))
            observation = marked(observation, setting.cell, setting.changed, number)
            self.results.write(observation, name)
        judgement = judge(observation)
        run = Measured(
            judgement=judgement,
            outcome=Outcome(sign=sign_of(judgement.verdict), label=setting.labels.of(observation)),
            name=path.name,
            seconds=seconds,
        )
        setting.runs.append(run)
        self.tell(setting)
        return run

    def run(self, plan: Plan, expected: float) -> tuple[Observation, float]:
        """Run a plan that is expected to take so many seconds; return those that it took, too.

        Raises:
            OutOfBudgetError: where the limit of time would be passed.
            ConfigError: where a variable is set here to something else.

        """
        started = time.monotonic()
        if started + expected > self.deadline:
            raise OutOfBudgetError
        check_variables(plan.variables)
        return self.engines.run(plan), time.monotonic() - started

    def _expected(self, setting: Setting) -> float:
        """Estimate the seconds of the next run: as the last one, or with an engine to start."""
        known = [run.seconds for run in setting.runs if run.seconds is not None]
        return known[-1] if known else start_seconds(setting.plan, self.target.config)


def start_seconds(plan: Plan, config: Config) -> float:
    """Estimate the seconds of a run for which an engine or server must be started."""
    ci = config.platforms[plan.cell.platform].ci
    start = ci.server_seconds if plan.cell.family is Family.STREAMING else ci.engine_seconds
    return start + ci.cell_seconds


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked: why a cell's arms differ under a contract, and which suspects it may be.

    `knobs` are the candidate's effective ones; `cleared` are suspects that have their other value
    as it is.
    """

    base: Plan
    contract: NamedContract
    suspects: tuple[Suspect, ...]
    cleared: tuple[Suspect, ...]
    knobs: dict[str, Any]
    environment: dict[str, str]


def ask(bench: Bench, suspects: Sequence[Suspect]) -> Question:
    """Run the cell once, unless that is recorded, and see what there is to ask.

    It is the cell's own contract that is asked about where it is broken; where it holds, any
    difference at all.
    """
    base = bench.target.plan
    strict = bench.target.config.contracts.named("strict")
    for contract in (base.contract, strict):
        first = bench.results.folder / f"{_first_of(bench, contract)}.json"
        if first.exists():
            observation = load_observation(first)
            break
    else:
        observation, _ = bench.run(base, start_seconds(base, bench.target.config))
        broken = judge(observation).verdict in {Verdict.DIVERGED, Verdict.NOISY}
        contract = base.contract if broken else strict
        observation = msgspec.structs.replace(
            marked(observation, base.cell.id, (), 1), contract=Contract(**contract.as_fields())
        )
        bench.results.write(observation, _first_of(bench, contract))
    arm = observation.arms.candidate
    knobs = arm.knobs if arm else {}
    cleared = tuple(one for one in suspects if is_other_already(one, base, knobs))
    return Question(
        base=base,
        contract=contract,
        suspects=tuple(one for one in suspects if one not in cleared),
        cleared=cleared,
        knobs=knobs,
        environment=observation.environment,
    )


def _first_of(bench: Bench, contract: NamedContract) -> str:
    """Return the name of the first record of the cell itself under a contract."""
    target = bench.target
    plan = probe_plan(target.plan, target.config, (), contract)
    return f"{key_of_plan(plan, target.about)}-001"


class LiveLab:
    """Measures settings of one cell on a bench, for :class:`vllm_parity.attribution.search.Search`.

    The cell itself is measured in two processes: what differs from one start to the next is seen
    as well as what differs from one run to the next.
    """

    def __init__(self, bench: Bench, question: Question, *, controls: int) -> None:
        self.bench = bench
        self.question = question
        self._renew_at = max(1, controls // 2)
        self._settings: dict[frozenset[str], Setting] = {}

    @property
    def settings(self) -> list[Setting]:
        """All settings that were measured, in order, the cell itself first."""
        return [one for one in self._settings.values() if one.runs]

    def setting(self, kept: Kept) -> Setting:
        """Return the setting with these suspects as the cell has them."""
        asked = self.question
        changed = tuple(one for one in asked.suspects if one.name not in kept)
        names = frozenset(one.name for one in changed)
        if names not in self._settings:
            plan = probe_plan(asked.base, self.bench.target.config, changed, asked.contract)
            self._settings[names] = Setting(
                number=len(self._settings),
                cell=asked.base.cell.id,
                changed=changed,
                plan=plan,
                key=key_of_plan(plan, self.bench.target.about),
            )
        return self._settings[names]

    def run(self, kept: Kept, times: int) -> list[Outcome]:
        """Return the outcomes of at least so many runs.

        Raises:
            OutOfBudgetError: where the limit of time would be passed.

        """
        setting = self.setting(kept)
        while len(setting.runs) < times:
            if not setting.changed and len(setting.runs) == self._renew_at:
                self.bench.engines.close()
            self.bench.measure(setting)
        return [run.outcome for run in setting.runs]
