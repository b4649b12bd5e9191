"""``vllm-parity judge``: observation files in, verdicts out."""

from __future__ import annotations

import glob
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vllm_parity.errors import ConfigError, FormatError
from vllm_parity.judge.explain import explain
from vllm_parity.judge.transcript import read_transcript
from vllm_parity.judge.verdicts import judge
from vllm_parity.observation import Contract, Observation, decode_observation, load_observation
from vllm_parity.verdict import Verdict, worst

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from vllm_parity.contracts import Contracts
    from vllm_parity.judge.findings import Judgement


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A file and what became of it."""

    file: str
    observation: Observation
    judgement: Judgement


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vllm-parity judge`."""
    parser.description = (
        "Judge observation files. The exit code is that of the worst verdict: 0 pass, 1 diverged, "
        "3 not run, 5 unverified, 7 error, 8 invalid pair, 9 noisy; 2 where a file cannot be read."
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="observation files, globs, folders (every *.json below them), or - for standard input",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list and nothing else")
    parser.add_argument(
        "--contracts",
        type=Path,
        metavar="FILE",
        help="judge by the contracts of this file instead of those in the observations",
    )
    parser.add_argument(
        "--response",
        type=Path,
        metavar="FILE",
        help="a plain chat completion response (JSON), to judge --stream against",
    )
    parser.add_argument(
        "--stream",
        type=Path,
        metavar="FILE",
        help="the server-sent events of the same request",
    )
    parser.add_argument(
        "--contract",
        choices=("bitwise", "tokens", "text"),
        help="how to compare --response and --stream (default: as much as the response gives)",
    )


def run_judge(args: argparse.Namespace) -> int:
    """Run `vllm-parity judge` and return its exit code."""
    contracts = None
    if args.contracts is not None:
        from vllm_parity.contracts import load_contracts  # noqa: PLC0415 - seldom wanted

        contracts = load_contracts(args.contracts)
    verdicts, failed = [], False
    printed: list[dict[str, Any]] = []
    for name, read in _sources(args):
        try:
            judged = _judge(name, read(), contracts)
        except FormatError as error:
            # One file that cannot be read must not keep the others from being judged.
            failed = True
            _complain(str(error))
            continue
        verdicts.append(judged.judgement.verdict)
        _report(judged, printed, as_json=args.json)
    if args.json:
        _write(msgspec.json.format(msgspec.json.encode(printed)).decode())
    elif len(verdicts) > 1:
        _write(_summary(verdicts))
    return FormatError.exit_code if failed else worst(verdicts).exit_code


def _sources(args: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Observation]]]:
    """Return the name of each source, and what reads it."""
    if (args.response is None) is not (args.stream is None):
        msg = "--response and --stream belong together: give both, or neither"
        raise ConfigError(msg)
    if args.response is None and not args.files:
        msg = "nothing to judge: give observation files, folders, or - for standard input"
        raise ConfigError(msg)
    if args.response is not None:
        read = partial(read_transcript, args.response, args.stream, args.contract)
        yield f"{args.response} + {args.stream}", read
    for name in expand(args.files):
        yield name, partial(_read_stdin if name == "-" else load_observation, name)


def _read_stdin(_name: str) -> Observation:
    return decode_observation(sys.stdin.buffer.read(), "standard input")


def expand(names: Sequence[str]) -> list[str]:
    """Return the files that names, globs and folders stand for, each once.

    A run's folder `meta` is left out: what lies there are attempts that did not count.

    Raises ConfigError where one stands for none: a typing error must not look like a pass.
    """
    found: dict[str, None] = {}
    for name in names:
        path = Path(name)
        if path.is_dir():
            below = path.rglob("*.json")
            files = sorted(str(one) for one in below if "meta" not in one.relative_to(path).parts)
        elif name == "-" or path.exists() or not glob.has_magic(name):
            files = [name]
        else:
            # Not Path.glob: it takes no absolute pattern.
            files = sorted(glob.glob(name, recursive=True))  # noqa: PTH207
        if not files:
            msg = f"{name}: there is no observation file there"
            raise ConfigError(msg)
        found.update(dict.fromkeys(files))
    return list(found)


def judge_file(file: str, observation: Observation) -> Judgement:
    """Judge an observation that was read from a file.

    Raises:
        FormatError: with the file's name, where it cannot be judged.

    """
    try:
        return judge(observation)
    except FormatError as error:
        msg = f"{file}: {error}"
        raise FormatError(msg) from None


def _judge(name: str, observation: Observation, contracts: Contracts | None) -> Judged:
    if contracts is not None:
        observation = _with_contract(observation, contracts)
    return Judged(file=name, observation=observation, judgement=judge_file(name, observation))


def _with_contract(observation: Observation, contracts: Contracts) -> Observation:
    """Return the observation under the contract that a file has for its place in the matrix."""
    from vllm_parity.judge.place import place_of  # noqa: PLC0415 - seldom wanted

    found = contracts.find(place_of(observation))
    return msgspec.structs.replace(observation, contract=Contract(**found.as_fields()))


def _report(judged: Judged, printed: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        printed.append({"file": judged.file, **judged.judgement.as_dict()})
    elif judged.judgement.verdict is Verdict.PASS:
        _write(_pass_line(judged))
    else:
        _write(f"{judged.file}\n{explain(judged.observation, judged.judgement)}\n")


def _pass_line(judged: Judged) -> str:
    """Return one line: of what passes, how much was compared is all there is to know."""
    judgement = judged.judgement
    compared = judgement.compared
    text = (
        f"PASS  {judgement.cell}  {compared.requests} requests, {compared.positions} positions, "
        f"{compared.logprobs} logprobs"
    )
    found = judgement.worst
    return text if found is None else f"{text}, at most {found.abs:.6g} of {found.allowed:.6g}"


def _summary(verdicts: list[Verdict]) -> str:
    counts = {verdict: verdicts.count(verdict) for verdict in Verdict}
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return f"{len(verdicts)} cells: {listed}"


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _complain(text: str) -> None:
    sys.stderr.write(f"error: {text}\n")
