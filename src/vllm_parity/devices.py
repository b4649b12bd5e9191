"""Which GPU each worker of pytest-xdist has for its own, or why there cannot be so many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError, HardwareError
from vllm_parity.matrix import Platform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vllm_parity.hardware import Machine
    from vllm_parity.matrix import Cell

_VARIABLES = {
    Platform.CUDA: ("CUDA_VISIBLE_DEVICES",),
    # vLLM refuses to start where both are set and differ.
    Platform.ROCM: ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}
_FEWER = "take fewer workers (-n 1), or leave -n out"


def devices_for(cells: Sequence[Cell], machine: Machine, workers: int) -> list[dict[str, str]]:
    """Return for each worker the variables that leave it a GPU of its own.

    One worker alone has whatever there is.

    Raises:
        ConfigError: where the cells are of several platforms.
        HardwareError: where there are more workers than GPUs.

    """
    if workers == 1:
        return [{}]
    platforms = sorted({cell.platform for cell in cells})
    if len(platforms) > 1:
        msg = (
            f"-n {workers}: the chosen cells are of several platforms ({', '.join(platforms)}),"
            " and each worker has one GPU; choose one with --platform"
        )
        raise ConfigError(msg)
    (platform,) = platforms
    if platform is Platform.CPU:
        msg = (
            f"-n {workers}: the chosen cells run on the processors, which all workers would share,"
            f" their memory and their time; {_FEWER}"
        )
        raise HardwareError(msg)
    probe = machine.probe(platform)
    if len(probe.devices) < workers:
        why = f" ({probe.problem or probe.note})" if probe.problem or probe.note else ""
        msg = (
            f"-n {workers}: each worker has a GPU of its own, and of {platform} there is"
            f" {len(probe.devices) or 'none'}{why}; two workers on one GPU would share its memory"
            f" and its time; {_FEWER}"
        )
        raise HardwareError(msg)
    return [
        dict.fromkeys(_VARIABLES[platform], device.id or str(index))
        for index, device in enumerate(probe.devices[:workers])
    ]


def most_workers(cells: Sequence[Cell], machine: Machine) -> int:
    """Return how many workers can have a GPU of their own, and 1 where none can."""
    platforms = {cell.platform for cell in cells}
    if len(platforms) > 1 or Platform.CPU in platforms:
        return 1
    return max(1, len(machine.devices(platforms.pop())))
