"""AMD's GPUs, as the kernel's compute driver (kfd) lists them and as ROCm would number them.

Everything is read from sysfs, which needs no library of ROCm's and no root.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vllm_parity.hardware.architecture import amd_architecture
from vllm_parity.hardware.files import (
    as_number,
    pci_devices,
    read_number,
    read_pairs,
    read_text,
)
from vllm_parity.hardware.machine import Device, Probe
from vllm_parity.hardware.visible import choose
from vllm_parity.matrix.axes import Platform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HEAPS = ("1", "2")
"""A memory bank's heap types that are a GPU's own memory: seen by the processor, and not."""

_GIVE = "give the container its GPUs (--device=/dev/kfd --device=/dev/dri)"


def probe_rocm(root: Path, environment: Mapping[str, str]) -> Probe:
    """Return the GPUs that ROCm would show to a process with this environment."""
    if not _nodes(root):
        return _without_kfd(root)
    driver = _driver(root)
    devices = _devices(root)
    problem = _refusal(root, devices)
    if problem:
        return Probe(platform=Platform.ROCM, driver=driver, problem=problem)
    if not devices:
        note = "PCI has a GPU of AMD's, but kfd lists none" if _displays(root) else None
        return Probe(platform=Platform.ROCM, driver=driver, note=note)
    return _visible(devices, environment, driver)


def _without_kfd(root: Path) -> Probe:
    evidence = None
    if (root / "dev/kfd").exists():
        evidence = "there is /dev/kfd"
    elif found := _displays(root):
        evidence = f"PCI has a GPU of AMD's at {', '.join(found)}"
    if evidence is None:
        return Probe(platform=Platform.ROCM)
    problem = (
        f"{evidence}, but the kernel lists no compute node in /sys/class/kfd; "
        "load the driver (modprobe amdgpu), or give the container /sys"
    )
    return Probe(platform=Platform.ROCM, problem=problem)


def _displays(root: Path) -> list[str]:
    # 0x12 is a processing accelerator, as which an Instinct without graphics is listed.
    return pci_devices(root, "0x1002", ("0x03", "0x12"))


def _refusal(root: Path, devices: list[Device]) -> str | None:
    """Return why this process cannot use the driver's GPUs, or cannot even see them."""
    kfd = root / "dev/kfd"
    if not devices:
        unread = any(read_text(node / "properties") is None for node in _nodes(root))
        return f"kfd has nodes that this process may not read; {_GIVE}" if unread else None
    if not kfd.exists():
        return f"/dev/kfd is missing; {_GIVE}"
    if not os.access(kfd, os.R_OK | os.W_OK):
        return "/dev/kfd may not be read and written; add this user to the groups render and video"
    return None


def _driver(root: Path) -> str | None:
    """Return the version of amdgpu; the one that comes with the kernel has none but its."""
    version = read_text(root / "sys/module/amdgpu/version")
    kernel = read_text(root / "proc/sys/kernel/osrelease")
    return version or (f"Linux {kernel}" if kernel else None)


def _nodes(root: Path) -> list[Path]:
    """Return the folders of kfd's nodes, processors among them, in its order."""
    found = root.glob("sys/class/kfd/kfd/topology/nodes/[0-9]*")
    return sorted(found, key=lambda path: (len(path.name), path.name))


def _devices(root: Path) -> list[Device]:
    """Return the GPUs among the nodes. One that a container may not use refuses to be read."""
    devices: list[Device] = []
    for node in _nodes(root):
        properties = read_pairs(node / "properties") or {}
        if as_number(properties.get("simd_count")):  # 0 is a processor
            devices.append(_device(root, node, properties, index=len(devices)))
    return devices


def _device(root: Path, node: Path, properties: Mapping[str, str], *, index: int) -> Device:
    version = as_number(properties.get("gfx_target_version"))
    unique = as_number(properties.get("unique_id"))
    card = root / f"sys/class/drm/renderD{properties.get('drm_render_minor')}/device"
    total = read_number(card / "mem_info_vram_total")
    used = read_number(card / "mem_info_vram_used")
    return Device(
        name=read_text(card / "product_name") or None,
        architecture=amd_architecture(version) if version else None,
        memory_total=_banks(node) if total is None else total,
        memory_free=None if total is None or used is None else max(0, total - used),
        id=f"GPU-{unique:016x}" if unique else str(index),
    )


def _banks(node: Path) -> int | None:
    """Return the memory of a node's own banks in bytes; a partition has no other source."""
    banks = [read_pairs(path) or {} for path in node.glob("mem_banks/*/properties")]
    sizes = [
        as_number(bank.get("size_in_bytes")) or 0
        for bank in banks
        if bank.get("heap_type") in _HEAPS
    ]
    return sum(sizes) or None


def _visible(devices: list[Device], environment: Mapping[str, str], driver: str | None) -> Probe:
    # ROCR hides first, and HIP numbers what is left. To HIP an empty variable is one that is not
    # set, and CUDA's variable stands in for its own.
    rocr = "ROCR_VISIBLE_DEVICES"
    hip = (
        "HIP_VISIBLE_DEVICES" if environment.get("HIP_VISIBLE_DEVICES") else "CUDA_VISIBLE_DEVICES"
    )
    left = choose(rocr, environment.get(rocr), devices, _names(devices))
    rest = choose(hip, environment.get(hip) or None, left.devices, _names(left.devices))
    notes = (
        left.note(len(devices) - len(left.devices)),
        rest.note(len(left.devices) - len(rest.devices)),
    )
    return Probe(
        platform=Platform.ROCM,
        devices=rest.devices,
        driver=driver,
        note="; ".join(filter(None, notes)) or None,
    )


def _names(devices: list[Device] | tuple[Device, ...]) -> list[tuple[str, Device]]:
    return [(device.id or "", device) for device in devices]
