"""Each worker's GPU, and each reason for which there cannot be so many workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_parity.devices import devices_for, most_workers
from vllm_parity.errors import ConfigError, HardwareError
from vllm_parity.hardware import load_machine
from vllm_parity.matrix import Cell, Platform, load_matrix

MACHINES = Path(__file__).parents[1] / "data" / "machines"


def cells(*platforms: Platform) -> list[Cell]:
    every = load_matrix(None).cells
    return [next(cell for cell in every if cell.platform is one) for one in platforms]


def test_each_worker_sees_one_gpu() -> None:
    machine = load_machine(MACHINES / "h100-x2.json")
    names = [device.id for device in machine.devices(Platform.CUDA)]
    given = devices_for(cells(Platform.CUDA), machine, 2)
    assert given == [{"CUDA_VISIBLE_DEVICES": name} for name in names]


def test_one_worker_has_whatever_there_is() -> None:
    machine = load_machine(MACHINES / "no-gpu.json")
    assert devices_for(cells(*Platform), machine, 1) == [{}]


@pytest.mark.parametrize(
    ("machine", "platforms", "error", "message"),
    [
        ("no-gpu", [Platform.CUDA], HardwareError, "of cuda there is none; two workers on one"),
        ("h100", [Platform.CUDA], HardwareError, "of cuda there is 1; two workers on one GPU"),
        ("mi300x", [Platform.CUDA], HardwareError, "of cuda there is none"),
        ("broken-driver", [Platform.CUDA], HardwareError, r"there is none \(.+\); two workers"),
        ("h100-x2", [Platform.CPU], HardwareError, "the chosen cells run on the processors"),
        ("h100-x2", [Platform.CPU, Platform.CUDA], ConfigError, r"several platforms \(cpu, cuda"),
    ],
)
def test_more_workers_than_gpus_are_refused_with_the_reason(
    machine: str, platforms: list[Platform], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        devices_for(cells(*platforms), load_machine(MACHINES / f"{machine}.json"), 2)


@pytest.mark.parametrize(
    ("machine", "platforms", "most"),
    [
        ("h100-x2", [Platform.CUDA], 2),
        ("h100-x2", [Platform.ROCM], 1),
        ("h100-x2", [Platform.CPU], 1),
        ("h100-x2", [Platform.CPU, Platform.CUDA], 1),
        ("no-gpu", [Platform.CUDA], 1),
    ],
)
def test_most_workers(machine: str, platforms: list[Platform], most: int) -> None:
    assert most_workers(cells(*platforms), load_machine(MACHINES / f"{machine}.json")) == most
