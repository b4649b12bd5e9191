"""Why a cell is not green: the judge's screen, and what only the run knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.judge import explain
from vllm_parity.matrix import Platform
from vllm_parity.verdict import Verdict

if TYPE_CHECKING:
    from vllm_parity.ledger import Judged


def explain_outcome(judged: Judged) -> str:
    """Return one screen about a cell whose outcome is not `pass`."""
    text = explain(judged.observation, judged.judgement, command=command(judged))
    if judged.cell.negative_control and judged.judgement.verdict is Verdict.PASS:
        text = (
            "This is a negative control: its candidate ran with one weight nudged, and yet\n"
            "nothing was found. While that is so, no green of this family proves anything.\n" + text
        )
    return f"{text}\nrecord: {judged.path}"


def command(judged: Judged) -> str:
    """Return the command that runs this cell again, and nothing else."""
    cell = judged.cell
    models = f" --models {cell.models}" if cell.platform is not Platform.CPU else ""
    return f'nox -s "{cell.session}" -- --cell {cell.id}{models}'
