"""AMD's GPUs, from trees of sysfs as the kernel makes them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from machines import GIB, on_pci, write

from vllm_parity.hardware.amd import probe_rocm
from vllm_parity.hardware.machine import Device, Probe

if TYPE_CHECKING:
    from pathlib import Path

NODES = "/sys/class/kfd/kfd/topology/nodes"
CPU_NODE = {
    f"{NODES}/0/properties": "cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0",
    "/dev/kfd": "",
    "/proc/sys/kernel/osrelease": "6.8.0-45-generic",
}


def gpu(
    node: int, version: int, *, unique: int = 0, total: int, used: int, name: str
) -> dict[str, str]:
    minor = 127 + node
    card = f"/sys/class/drm/renderD{minor}/device"
    properties = (
        f"cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\nvendor_id 4098\n"
        f"drm_render_minor {minor}\nunique_id {unique}\ngfx_target_version {version}"
    )
    return {
        f"{NODES}/{node}/properties": properties,
        f"{NODES}/{node}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {total}\nflags 0",
        f"{card}/mem_info_vram_total": str(total),
        f"{card}/mem_info_vram_used": str(used),
        f"{card}/product_name": name,
    }


def mi300x(node: int) -> dict[str, str]:
    return gpu(
        node, 90402, unique=0xABC0 + node, total=192 * GIB, used=GIB, name="AMD Instinct MI300X OAM"
    )


def probe(root: Path, **environment: str) -> Probe:
    return probe_rocm(root, environment)


def ids(found: Probe) -> list[str | None]:
    return [device.id for device in found.devices]


FIRST, SECOND, THIRD = (f"GPU-000000000000abc{n}" for n in (1, 2, 3))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    return write(tmp_path, CPU_NODE | mi300x(1) | mi300x(2) | mi300x(3))


def test_mi300x(tmp_path: Path) -> None:
    write(tmp_path, CPU_NODE | mi300x(1) | {"/sys/module/amdgpu/version": "6.10.5"})
    found = probe(tmp_path)
    assert found.devices == (
        Device(
            name="AMD Instinct MI300X OAM",
            architecture="gfx942",
            memory_total=192 * GIB,
            memory_free=191 * GIB,
            id=FIRST,
        ),
    )
    assert (found.driver, found.problem, found.note) == ("6.10.5", None, None)


def test_radeon_has_no_name_no_uuid_and_the_driver_of_the_kernel(tmp_path: Path) -> None:
    write(tmp_path, CPU_NODE | gpu(1, 110000, total=24 * GIB, used=2 * GIB, name=""))
    found = probe(tmp_path)
    assert found.devices == (
        Device(
            name=None,
            architecture="gfx1100",
            memory_total=24 * GIB,
            memory_free=22 * GIB,
            id="0",
        ),
    )
    assert found.driver == "Linux 6.8.0-45-generic"


def test_partition_has_the_memory_of_its_banks(tmp_path: Path) -> None:
    write(tmp_path, CPU_NODE | mi300x(1))
    shutil.rmtree(tmp_path / "sys/class/drm")
    (device,) = probe(tmp_path).devices
    assert (device.memory_total, device.memory_free) == (192 * GIB, None)


def test_broken_files_leave_fields_unknown(tmp_path: Path) -> None:
    write(tmp_path, CPU_NODE | {f"{NODES}/1/properties": "simd_count 4\n\ngfx_target_version x"})
    (device,) = probe(tmp_path).devices
    assert device == Device(
        name=None, architecture=None, memory_total=None, memory_free=None, id="0"
    )


def test_nodes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write(tmp_path, CPU_NODE | mi300x(2) | mi300x(9))
    write(tmp_path, gpu(10, 90402, unique=1, total=GIB, used=0, name=""))
    assert ids(probe(tmp_path)) == [SECOND, "GPU-000000000000abc9", "GPU-0000000000000001"]


# No GPU, or none that may be used


def test_no_kfd_and_no_trace_is_certainly_none(tmp_path: Path) -> None:
    found = probe(tmp_path)
    assert (found.devices, found.problem, found.note) == ((), None, None)


@pytest.mark.parametrize(
    ("files", "evidence"),
    [
        ({"/dev/kfd": ""}, "there is /dev/kfd"),
        (on_pci("0x1002", "0x030000"), "PCI has a GPU of AMD's at 0000:01:00.0"),
        (on_pci("0x1002", "0x120000"), "PCI has a GPU of AMD's at 0000:01:00.0"),
    ],
)
def test_no_kfd_but_a_trace_cannot_tell(
    tmp_path: Path, files: dict[str, str], evidence: str
) -> None:
    problem = probe(write(tmp_path, files)).problem
    assert problem is not None
    assert problem.startswith(evidence)
    assert "modprobe amdgpu" in problem


def test_kfd_with_processors_only_is_certainly_none(tmp_path: Path) -> None:
    found = probe(write(tmp_path, CPU_NODE))
    assert (found.devices, found.problem, found.note) == ((), None, None)


def test_gpu_that_kfd_does_not_list_is_said(tmp_path: Path) -> None:
    found = probe(write(tmp_path, CPU_NODE | on_pci("0x1002", "0x030000")))
    assert (found.problem, found.note) == (None, "PCI has a GPU of AMD's, but kfd lists none")


def test_nodes_that_refuse_to_be_read_cannot_tell(tmp_path: Path) -> None:
    write(tmp_path, CPU_NODE)
    (tmp_path / NODES[1:] / "1").mkdir()
    problem = probe(tmp_path).problem
    assert problem is not None
    assert "--device=/dev/kfd" in problem


def test_node_that_refuses_beside_one_that_does_not_is_no_problem(tmp_path: Path) -> None:
    write(tmp_path, CPU_NODE | mi300x(2))
    (tmp_path / NODES[1:] / "1").mkdir()
    found = probe(tmp_path)
    assert (ids(found), found.problem) == ([SECOND], None)


def test_kfd_missing_in_a_container(three: Path) -> None:
    (three / "dev/kfd").unlink()
    found = probe(three)
    assert found.devices == ()
    assert found.problem is not None
    assert found.problem.startswith("/dev/kfd is missing; give the container")


def test_user_outside_the_groups(three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may read anything, so that permissions alone would test nothing.
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    found = probe(three)
    assert found.devices == ()
    assert found.problem is not None
    assert "groups render and video" in found.problem


# Variables


@pytest.mark.parametrize(
    ("environment", "left"),
    [
        ({}, [FIRST, SECOND, THIRD]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [THIRD, FIRST]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"ROCR_VISIBLE_DEVICES": THIRD.upper()}, [THIRD]),
        ({"HIP_VISIBLE_DEVICES": "1"}, [SECOND]),
        ({"HIP_VISIBLE_DEVICES": ""}, [FIRST, SECOND, THIRD]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, [THIRD]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [SECOND]),
        ({"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [FIRST]),
    ],
)
def test_variables(three: Path, environment: dict[str, str], left: list[str]) -> None:
    assert ids(probe_rocm(three, environment)) == left


def test_each_variable_says_what_it_hides(three: Path) -> None:
    found = probe(three, ROCR_VISIBLE_DEVICES="1,2", HIP_VISIBLE_DEVICES="-1")
    assert (found.devices, found.problem) == ((), None)
    assert found.note == (
        "ROCR_VISIBLE_DEVICES=1,2 hides 1 GPU; "
        "HIP_VISIBLE_DEVICES=-1: '-1' names no GPU, which ends it, and hides 2 GPUs"
    )
