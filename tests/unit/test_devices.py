"""Each worker's GPU, and each reason for which there cannot be so many workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_parity.devices import devices_for, most_workers
from vllm_parity.errors import ConfigError, HardwareError
from vllm_parity.gate import Gate
from vllm_parity.hardware import load_machine
from vllm_parity.matrix import Cell, Platform, load_matrix, load_platforms

MACHINES = Path(__file__).parents[1] / "data" / "machines"


def cells(*platforms: Platform) -> list[Cell]:
    every = load_matrix(None).cells
    return [next(cell for cell in every if cell.platform is one) for one in platforms]


def test_each_worker_sees_one_gpu() -> None:
    machine = load_machine(MACHINES / "h100-x2.json")
    names = [device.id for device in machine.devices(Platform.CUDA)]
    given = devices_for(cells(Platform.CUDA), machine, 2)
    assert given == [{"CUDA_VISIBLE_DEVICES": name} for name in names]


GIB = 1 << 30


def test_workers_have_the_gpus_in_turn_where_memory_allows() -> None:
    machine = load_machine(MACHINES / "h100-x2.json")
    names = [device.id for device in machine.devices(Platform.CUDA)]
    given = devices_for(cells(Platform.CUDA), machine, 3, need=20 * GIB)
    assert [one["CUDA_VISIBLE_DEVICES"] for one in given] == [names[0], names[1], names[0]]


def test_gpu_that_is_too_small_for_its_workers_is_refused() -> None:
    machine = load_machine(MACHINES / "h100-x2.json")
    words = r"-n 3: 2 workers would share NVIDIA H100.*GiB are free, and each may take 50\.0 GiB"
    with pytest.raises(HardwareError, match=words):
        devices_for(cells(Platform.CUDA), machine, 3, need=50 * GIB)
    assert len(devices_for(cells(Platform.CUDA), machine, 2, need=50 * GIB)) == 2


def test_worker_may_take_all_its_warm_engines_and_a_server() -> None:
    matrix, platforms = load_matrix(None), load_platforms()
    gate = Gate(matrix=matrix, platforms=platforms, machine=load_machine(MACHINES / "h100-x2.json"))
    chosen = cells(Platform.CUDA)
    assert gate.worker_memory(chosen) == gate.memory(chosen[0]) * (
        platforms[Platform.CUDA].engines + 1
    )


def test_one_worker_has_whatever_there_is() -> None:
    machine = load_machine(MACHINES / "no-gpu.json")
    assert devices_for(cells(*Platform), machine, 1) == [{}]


@pytest.mark.parametrize(
    ("machine", "platforms", "error", "message"),
    [
        ("no-gpu", [Platform.CUDA], HardwareError, "needs a GPU of cuda: there is none; take"),
        ("mi300x", [Platform.CUDA], HardwareError, "needs a GPU of cuda: there is none"),
        ("broken-driver", [Platform.CUDA], HardwareError, r"there is none \(.+\); take fewer"),
        ("h100-x2", [Platform.CPU], HardwareError, "the chosen cells run on the processors"),
        ("h100-x2", [Platform.CPU, Platform.CUDA], ConfigError, r"several platforms \(cpu, cuda"),
    ],
)
def test_workers_without_a_gpu_are_refused_with_the_reason(
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
