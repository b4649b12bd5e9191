"""What a search says before it begins and while it runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TextIO

from vllm_parity.attribution.grid import Sign
from vllm_parity.attribution.live import start_seconds
from vllm_parity.attribution.search import CONTROLS
from vllm_parity.errors import ConfigError
from vllm_parity.strict import unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.attribution.live import Setting
    from vllm_parity.attribution.suspects import Suspect
    from vllm_parity.families import Config, Plan

_MARKS = {Sign.SAME: ".", Sign.DIVERGED: "D", Sign.NOISY: "N", Sign.VOID: "?"}


class Progress:
    """A line a setting: what was changed, and a mark for each run."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last: Setting | None = None

    def __call__(self, setting: Setting) -> None:
        """Say what a setting's last run showed."""
        if setting is not self._last:
            names = ", ".join(one.other for one in setting.changed) or "the cell itself"
            self._out.write(f"\n#{setting.number:<3} {names}: ")
            self._last = setting
        self._out.write(_MARKS[setting.runs[-1].outcome.sign])
        self._out.flush()


def chosen(suspects: Sequence[Suspect], names: Sequence[str]) -> list[Suspect]:
    """Return the suspects that were asked for, all where none was.

    Raises:
        ConfigError: where one is none of this cell's, or the cell has none.

    """
    known = [one.name for one in suspects]
    for name in names:
        if name not in known:
            msg = f"--suspect: {unknown('suspect', name, known)}"
            raise ConfigError(msg)
    found = [one for one in suspects if not names or one.name in names]
    if not found:
        msg = "suspects.toml has no suspect for this cell: add one, or name another file"
        raise ConfigError(msg)
    return found


def plan_of_search(plan: Plan, suspects: Sequence[Suspect], config: Config) -> str:
    """Return what is about to be run, and how long it may take."""
    ci = config.platforms[plan.cell.platform].ci
    halvings = math.ceil(math.log2(len(suspects))) if len(suspects) > 1 else 0
    # All at their other value, a bisection, the two proofs; a pair takes two bisections.
    one, pair = halvings + 3, 2 * halvings + 5
    controls = 2 * start_seconds(plan, config) + CONTROLS * ci.cell_seconds
    least, most = (
        math.ceil((controls + count * start_seconds(plan, config)) / 60) for count in (one, pair)
    )
    lines = [
        f"cell      {plan.cell.id}",
        f"suspects  {len(suspects)}",
        *(f"  {one.name:<20} {one.other}" for one in suspects),
        f"plan      {CONTROLS} runs of the cell itself in two processes,",
        f"          then up to {one} probes for one cause, {pair} for a pair",
        f"time      {least} to {most} minutes, as the platform's starts are estimated",
        "marks     . same  D diverged  N the control differs too  ? the run does not count",
    ]
    return "\n".join(lines) + "\n"
