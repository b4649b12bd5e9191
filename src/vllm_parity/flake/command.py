"""``vllm-parity flake``: repeat a cell in fresh engines and in a warm one, and say how often."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from vllm_parity.attribution.points import Labels
from vllm_parity.errors import ConfigError
from vllm_parity.flake.series import Claim, Repeat, Series
from vllm_parity.judge import judge
from vllm_parity.judge.layout import row
from vllm_parity.rates import clean_runs_needed
from vllm_parity.results import Results, new_run_id
from vllm_parity.schema import Contract, Kind
from vllm_parity.target import Engines, add_target_options, open_target
from vllm_parity.verdict import Verdict, worst

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from vllm_parity.target import Target

_MARKS = {Verdict.PASS: ".", Verdict.DIVERGED: "D", Verdict.NOISY: "N"}


def add_flake_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vllm-parity flake`."""
    parser.description = (
        "Repeat a cell in fresh engines, each in a process of its own, and in a warm one, and say "
        "how often it is red. The exit code is that of the worst verdict: a cell that passes now "
        "and fails then is flaky, and red."
    )
    add = parser.add_argument
    add("cell", metavar="CELL", help="a cell's id, or how it begins")
    add("--repeat", type=int, default=20, metavar="N", help="runs of each series (default: 20)")
    add(
        "--until-rate",
        type=float,
        metavar="RATE",
        help="run until it is settled whether red runs are rarer than this, such as 0.05",
    )
    add("--confidence", type=float, default=0.95, help="of that claim (default: 0.95)")
    add(
        "--engines",
        choices=("both", "fresh", "warm"),
        default="both",
        help="which series to run (default: both)",
    )
    add("--json", action="store_true", help="print one JSON object, nothing else")
    add_target_options(parser)


def run_flake(args: argparse.Namespace) -> int:
    """Run `vllm-parity flake` and return its exit code."""
    repeats = _repeats(args)
    target = open_target(args, args.cell)
    out = sys.stderr if args.json else sys.stdout
    results = Results(args.results, run_id=f"{new_run_id()}-flake")
    out.write(f"{target.plan.cell.id}: up to {repeats} runs in each series\n")
    runner = _Runner(target, results)
    found: list[Series] = []
    try:
        for name in ("warm", "fresh") if args.engines == "both" else (args.engines,):
            out.write(f"{name:<6}")
            done: list[Repeat] = []
            for repeat in runner.series(name, repeats):
                done.append(repeat)
                out.write(_MARKS.get(repeat.verdict, "?"))
                out.flush()
                series = Series(name=name, repeats=tuple(done))
                if args.until_rate and _settled(series, args):
                    break
            out.write("\n")
            found.append(series)
    finally:
        runner.close()
    if args.json:
        sys.stdout.write(json.dumps(_as_dict(target, found, args), indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(target, found, args, results)) + "\n")
    return worst(one.verdict for series in found for one in series.repeats).exit_code


def _repeats(args: argparse.Namespace) -> int:
    """Return how many runs a series has at the most."""
    if args.until_rate is not None:
        if not (0 < args.until_rate < 1 and 0 < args.confidence < 1):
            msg = "--until-rate and --confidence: each must lie between 0 and 1"
            raise ConfigError(msg)
        return clean_runs_needed(args.until_rate, args.confidence)
    if args.repeat < 1:
        msg = f"--repeat {args.repeat}: at least one run is needed"
        raise ConfigError(msg)
    return int(args.repeat)


def _settled(series: Series, args: argparse.Namespace) -> bool:
    return series.claim(args.until_rate, args.confidence) is not Claim.OPEN


class _Runner:
    """Runs a cell again and again; each run is kept, under the series' name and its number."""

    def __init__(self, target: Target, results: Results) -> None:
        self._target = target
        self._results = results
        self._engines = Engines(target, results)
        self._labels = Labels()

    def series(self, name: str, repeats: int) -> Iterator[Repeat]:
        """Run one series. The first run of a warm engine is no warm one, and does not count."""
        if name == "warm":
            self._run("first", 1)
        for number in range(1, repeats + 1):
            if name == "fresh":
                self.close()
            yield self._run(name, number)

    def close(self) -> None:
        """End all engines; the next run starts others."""
        self._engines.close()

    def _run(self, name: str, number: int) -> Repeat:
        ran = self._engines.run(self._target.plan)
        observation = msgspec.structs.replace(ran, repeat=number)
        path = self._results.write(observation, f"{observation.cell}.{name}-{number:03}")
        # Classes are told apart by their bits, whatever the contract allows.
        strict = msgspec.structs.replace(observation, contract=Contract(kind=Kind.BITWISE))
        return Repeat(
            verdict=judge(observation).verdict, label=self._labels.of(strict), record=path.name
        )


def _lines(
    target: Target, found: Iterable[Series], args: argparse.Namespace, results: Results
) -> Iterator[str]:
    yield ""
    for series in found:
        state = "flaky" if series.is_flaky else worst(one.verdict for one in series.repeats)
        yield row(series.name, f"{state}: red in {series.rate.words}")
        for number, ((_, verdict), count) in enumerate(series.classes.items(), start=1):
            yield row("", f"class {number}: {count} runs, {verdict}")
        left_out = len(series.repeats) - len(series.counted)
        if left_out:
            yield row("", f"{left_out} runs count for nothing: see their records")
        flip = series.first_flip
        yield row("", f"first flip: run {flip}" if flip else "no flip: all runs are the same bits")
        if args.until_rate:
            claim = series.claim(args.until_rate, args.confidence)
            words = f"rarer than {args.until_rate:g} with {args.confidence:.0%} confidence"
            yield row("", f"claim: {words}: {claim}")
    yield row(
        "clean runs needed",
        ", ".join(f"{clean_runs_needed(p, 0.95)} to show a rate below {p:g}" for p in (0.05, 0.01))
        + ", with 95 % confidence",
    )
    yield row("records", str(results.folder))


def _as_dict(target: Target, found: Iterable[Series], args: argparse.Namespace) -> dict[str, Any]:
    answer: dict[str, Any] = {"cell": target.plan.cell.id, "series": {}}
    for series in found:
        low, high = series.rate.interval()
        entry: dict[str, Any] = {
            "red": series.rate.events,
            "runs": series.rate.runs,
            "interval": [low, high],
            "flaky": series.is_flaky,
            "classes": [
                {"runs": count, "verdict": verdict}
                for (_, verdict), count in series.classes.items()
            ],
            "first_flip": series.first_flip,
        }
        if args.until_rate:
            entry["claim"] = series.claim(args.until_rate, args.confidence)
        answer["series"][series.name] = entry
    return answer
