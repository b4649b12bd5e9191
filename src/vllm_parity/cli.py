"""The ``vllm-parity`` command."""

from __future__ import annotations

import argparse
import importlib
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
    for name, (summary, module) in _COMMANDS.items():
        # Only the command that was asked for is imported, so that each starts quickly.
        command = subcommands.add_parser(name, help=summary)
        if name in arguments:
            _prepare(name, module, command)
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


def _prepare(name: str, module: str, parser: argparse.ArgumentParser) -> None:
    """Have a command's own module add its arguments, and run it."""
    command = importlib.import_module(f"vllm_parity.{module}")
    getattr(command, f"add_{name}_arguments")(parser)
    parser.set_defaults(run=getattr(command, f"run_{name}"))


_COMMANDS = {
    "doctor": ("say what this machine is, and what can run on it", "doctor"),
    "plan": ("list the cells of the matrix, or show both arms of one", "report.plan_command"),
    "judge": ("give verdicts on observation files", "judge.command"),
    "merge": ("bring the records of many jobs together, to one verdict", "report.merge_command"),
    "history": ("show what became of a cell over time, and what changed", "report.history_command"),
    "attribute": ("name the cause of a divergence", "attribution.command"),
    "flake": ("measure how often a cell is red", "flake.command"),
    "compare": ("compare two runs, cell by cell", "judge.runs"),
    "models": ("make the built-in models", "models.command"),
}


if __name__ == "__main__":
    sys.exit(main())
