"""Which GPU each worker of pytest-xdist runs on, or why there cannot be so many workers.

Several workers share a GPU where its memory allows: that changes times, never numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_parity.errors import ConfigError, HardwareError
from vllm_parity.matrix import Platform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vllm_parity.hardware import Machine
    from vllm_parity.matrix import Cell

_VARIABLES = {
    Platform.CUDA: ("CUDA_VISIBLE_DEVICES",),
    # vLLM refuses to start where both are set and differ.
    Platform.ROCM: ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}
_GIB = 1 << 30
_FEWER = "take fewer workers (-n 1), or leave -n out"


def devices_for(
    cells: Sequence[Cell],
    machine: Machine,
    workers: int,
    *,
    need: Callable[[int], int] = lambda _: 0,
) -> list[dict[str, str]]:
    """Return for each worker the variables that leave it one GPU; they have the GPUs in turn.

    One worker alone has whatever there is.

    Args:
        cells: what was chosen.
        machine: where.
        workers: how many.
        need: the bytes of a GPU that so many workers may take together.

    Raises:
        ConfigError: where the cells are of several platforms.
        HardwareError: where there is no GPU, or too little memory for so many workers on one.

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
    if not probe.devices:
        why = f" ({probe.problem or probe.note})" if probe.problem or probe.note else ""
        msg = f"-n {workers}: each worker needs a GPU of {platform}: there is none{why}; {_FEWER}"
        raise HardwareError(msg)
    for index, device in enumerate(probe.devices):
        sharing = len(range(index, workers, len(probe.devices)))
        if sharing > 1 and device.memory_free is not None and device.memory_free < need(sharing):
            msg = (
                f"-n {workers}: {sharing} workers would share {device.name}, of which"
                f" {device.memory_free / _GIB:.1f} GiB are free, and with these cells they may take"
                f" {need(sharing) / _GIB:.1f} GiB; {_FEWER}"
            )
            raise HardwareError(msg)
    names = [device.id or str(index) for index, device in enumerate(probe.devices)]
    return [
        dict.fromkeys(_VARIABLES[platform], names[worker % len(names)]) for worker in range(workers)
    ]


def memory_of(workers: int, *, counts: Mapping[str, int], warm: int, largest: int) -> int:
    """Return the bytes that workers on one GPU may take together.

    Each keeps so many `warm` engines of each environment, and a server; cells with the same engine
    stay on one worker, so that all together have each engine once.

    Args:
        workers: how many.
        counts: the distinct `hosts`, `engines` and `servers` of the cells.
        warm: engines that one host keeps.
        largest: the bytes of the largest engine or server.

    """
    engines = min(workers * warm * counts["hosts"], counts["engines"])
    return (engines + min(workers, counts["servers"])) * largest


def most_workers(cells: Sequence[Cell], machine: Machine) -> int:
    """Return how many workers have a GPU of their own, and 1 where none can."""
    platforms = {cell.platform for cell in cells}
    if len(platforms) > 1 or Platform.CPU in platforms:
        return 1
    return max(1, len(machine.devices(platforms.pop())))
