"""What this machine has: its processor, its NVIDIA and its AMD GPUs. Standard library only.

The noxfile reads it before anything is installed: no probe starts a program, and none needs
PyTorch, root or the network.
"""

from __future__ import annotations

import os
import platform as interpreter
from pathlib import Path
from typing import TYPE_CHECKING

from vllm_parity.hardware.amd import probe_rocm
from vllm_parity.hardware.architecture import at_least
from vllm_parity.hardware.cpu import probe_cpu
from vllm_parity.hardware.machine import Device, Machine, Probe, dump_machine, load_machine
from vllm_parity.hardware.nvidia import probe_cuda
from vllm_parity.hardware.nvml import open_nvml
from vllm_parity.matrix.axes import Platform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vllm_parity.hardware.nvml import Library

__all__ = [
    "Device",
    "Machine",
    "Probe",
    "at_least",
    "dump_machine",
    "load_machine",
    "probe_machine",
]

_ROOT = Path("/")


def probe_machine(
    root: Path = _ROOT,
    environment: Mapping[str, str] = os.environ,
    *,
    load: Callable[[], Library] = open_nvml,
) -> Machine:
    """Return what each platform finds here, as a process with this environment would see it.

    Never fails: what went wrong is the `problem` of its platform. `root` is where ``/proc``,
    ``/sys`` and ``/dev`` are, `load` returns NVIDIA's management library.
    """
    system = os.uname()
    return Machine(
        host=f"{system.sysname} {system.release} {system.machine}",
        python=interpreter.python_version(),
        probes=(
            _safely(Platform.CPU, lambda: probe_cpu(root)),
            _safely(Platform.CUDA, lambda: probe_cuda(root, environment, load)),
            _safely(Platform.ROCM, lambda: probe_rocm(root, environment)),
        ),
    )


def _safely(platform: Platform, probe: Callable[[], Probe]) -> Probe:
    try:
        return probe()
    # Whatever a driver or a file system answers, the other platforms are still to be reported,
    # and the noxfile is still to be read.
    except Exception as error:  # noqa: BLE001
        problem = (
            f"the probe of {platform} failed: {type(error).__name__}: {error}; "
            "please report it with this machine's record (vllm-parity doctor --json)"
        )
        return Probe(platform=platform, problem=problem)
