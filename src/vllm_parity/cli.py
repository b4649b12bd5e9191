"""The ``vllm-parity`` command."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from vllm_parity import __version__
from vllm_parity.errors import ParityError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code.

    Whatever goes wrong in a way that was foreseen is one message on standard error.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(prog="vllm-parity", description=_about())
    parser.add_argument("--version", action="version", version=f"vllm-parity {__version__}")
    subcommands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (summary, prepare) in _COMMANDS.items():
        # Only the command that was asked for is imported, so that each starts quickly.
        command = subcommands.add_parser(name, help=summary)
        if name in arguments:
            prepare(command)
    args, others = parser.parse_known_args(arguments)
    # The noxfile checks with all that pytest is to be given: what is not the doctor's is pytest's.
    if others and not getattr(args, "check", False):
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    try:
        code: int = args.run(args)
    except ParityError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except BrokenPipeError:
        # Whoever read this has seen enough; a verdict that nobody read is still none.
        sys.stderr.close()
        return 1
    return code


def _about() -> str:
    return "Does the same request give the same numbers when one thing about its run has changed?"


def _judge(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.judge.command import add_judge_arguments, run_judge

    add_judge_arguments(parser)
    parser.set_defaults(run=run_judge)


def _compare(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.judge.runs import add_compare_arguments, run_compare

    add_compare_arguments(parser)
    parser.set_defaults(run=run_compare)


def _models(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.models.command import add_models_arguments, run_models

    add_models_arguments(parser)
    parser.set_defaults(run=run_models)


def _plan(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.report.plan_command import add_plan_arguments, run_plan

    add_plan_arguments(parser)
    parser.set_defaults(run=run_plan)


def _merge(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.report.merge_command import add_merge_arguments, run_merge

    add_merge_arguments(parser)
    parser.set_defaults(run=run_merge)


def _history(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.report.history_command import add_history_arguments, run_history

    add_history_arguments(parser)
    parser.set_defaults(run=run_history)


def _attribute(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.attribution.command import add_attribute_arguments, run_attribute

    add_attribute_arguments(parser)
    parser.set_defaults(run=run_attribute)


def _flake(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.flake.command import add_flake_arguments, run_flake

    add_flake_arguments(parser)
    parser.set_defaults(run=run_flake)


def _doctor(parser: argparse.ArgumentParser) -> None:
    from vllm_parity.doctor import add_doctor_arguments, run_doctor

    add_doctor_arguments(parser)
    parser.set_defaults(run=run_doctor)


_COMMANDS = {
    "doctor": ("say what this machine is, and what can run on it", _doctor),
    "plan": ("list the cells of the matrix, or show both arms of one", _plan),
    "judge": ("give verdicts on observation files", _judge),
    "merge": ("bring the records of many jobs together, to one verdict", _merge),
    "history": ("show what became of a cell over time, and what changed", _history),
    "attribute": ("name the cause of a divergence", _attribute),
    "flake": ("measure how often a cell is red", _flake),
    "compare": ("compare two runs, cell by cell", _compare),
    "models": ("make the built-in models", _models),
}


if __name__ == "__main__":
    sys.exit(main())
