"""What is asked: prompts by modality, each with every sampling setting of its family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.engine.request import Request
from vllm_parity.matrix import Family
from vllm_parity.models import prompts

if TYPE_CHECKING:
    from vllm_parity.families.plan import Config
    from vllm_parity.matrix import Cell


def requests(cell: Cell, config: Config, *, long: bool = False) -> tuple[Request, ...]:
    """Return the requests of an offline cell; `long` ones fill more than a block of KV cache."""
    if cell.family is Family.SPEC_DECODE:
        texts = prompts.REPETITIVE_PROMPTS
    else:
        texts = prompts.LONG_PROMPTS if long else prompts.TEXT_PROMPTS
    return tuple(
        Request(id=f"{name}-{number}", prompt=text, sampling=sampling)
        for name, sampling in config.matrix.families[cell.family].sampling.items()
        for number, text in enumerate(texts)
    )
