"""NVIDIA's GPUs, as NVML knows them and as CUDA would number them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from vllm_parity.hardware.architecture import nvidia_architecture
from vllm_parity.hardware.files import pci_devices
from vllm_parity.hardware.machine import Device, Probe
from vllm_parity.hardware.nvml import Code, Nvml, NvmlError
from vllm_parity.hardware.visible import choose
from vllm_parity.matrix.axes import Platform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from ctypes import c_void_p
    from pathlib import Path

    from vllm_parity.hardware.nvml import Library

T = TypeVar("T")

_TRY = {
    Code.NO_PERMISSION: "let this user read and write /dev/nvidia*",
    Code.DRIVER_NOT_LOADED: "load the driver (modprobe nvidia), or give the container its GPUs",
    Code.MISMATCH: "reboot or reload the driver",
}


@dataclass(frozen=True, kw_only=True)
class _Card:
    """What is in one slot: the card, or its slices; or why it cannot be opened."""

    index: int
    uuid: str | None = None
    devices: tuple[Device, ...] = ()
    mig: bool = False
    problem: str | None = None


def probe_cuda(root: Path, environment: Mapping[str, str], load: Callable[[], Library]) -> Probe:
    """Return the GPUs that CUDA would show to a process with this environment.

    `load` returns NVML or raises OSError. Where NVML does not answer, there is certainly no GPU
    if neither the PCI bus nor the kernel knows of one.
    """
    try:
        nvml = Nvml(load())
        nvml.start()
    except (OSError, NvmlError) as error:
        return _without_nvml(root, error)
    try:
        driver = _or_none(nvml.driver)
        cards = [_card(nvml, index) for index in nvml.cards()]
    except NvmlError as error:
        return Probe(platform=Platform.CUDA, problem=_unanswered(error))
    finally:
        nvml.stop()
    return _visible(cards, environment, driver)


def _without_nvml(root: Path, error: OSError | NvmlError) -> Probe:
    evidence = _evidence(root)
    if evidence is None:
        return Probe(platform=Platform.CUDA)
    if isinstance(error, NvmlError):
        problem = _unanswered(error)
    else:
        problem = (
            f"NVML cannot be loaded: {error}; "
            "install the NVIDIA driver, or give the container its GPUs (--gpus all)"
        )
    return Probe(platform=Platform.CUDA, problem=f"{problem}; yet {evidence}")


def _unanswered(error: NvmlError) -> str:
    advice = next((text for code, text in _TRY.items() if code == error.code), "see nvidia-smi")
    return f"NVML does not answer: {error}; {advice}"


def _evidence(root: Path) -> str | None:
    """Return what speaks for a GPU of NVIDIA's other than NVML."""
    # nvmap is on Jetson, whose GPU is on no bus.
    for path in ("dev/nvidia0", "dev/nvidiactl", "dev/nvmap", "proc/driver/nvidia"):
        if (root / path).exists():
            return f"there is /{path}"
    found = pci_devices(root, "0x10de", ("0x03",))
    return f"PCI has a GPU of NVIDIA's at {', '.join(found)}" if found else None


def _card(nvml: Nvml, index: int) -> _Card:
    try:
        handle = nvml.card(index)
    except NvmlError as error:
        return _Card(index=index, problem=f"GPU {index} cannot be opened: {error}; see nvidia-smi")
    uuid = _or_none(lambda: nvml.uuid(handle))
    # A card that cannot be cut says so by an error.
    if not _or_none(lambda: nvml.mig(handle)):
        device = _device(nvml, handle, handle, number=str(index))
        return _Card(index=index, uuid=uuid, devices=(device,))
    problem: str | None = None
    devices = []
    try:
        for part in nvml.slices(handle):
            # CUDA takes no index of a slice.
            devices.append(_device(nvml, part, handle, number=None))  # noqa: PERF401
    except NvmlError as error:
        problem = f"the MIG slices of GPU {index} cannot be listed: {error}; see nvidia-smi -L"
    return _Card(index=index, uuid=uuid, devices=tuple(devices), mig=True, problem=problem)


def _device(nvml: Nvml, handle: c_void_p, card: c_void_p, *, number: str | None) -> Device:
    """Return what can be read of a card or slice; `number` is its name where it has no UUID."""
    memory = _or_none(lambda: nvml.memory(handle))
    capability = _or_none(lambda: nvml.capability(card))  # NVML knows it of whole cards only
    return Device(
        name=_or_none(lambda: nvml.name(handle)),
        architecture=nvidia_architecture(*capability) if capability else None,
        memory_total=memory[0] if memory else None,
        memory_free=memory[1] if memory else None,
        id=_or_none(lambda: nvml.uuid(handle)) or number,
    )


def _or_none(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except NvmlError:
        return None


def _visible(cards: list[_Card], environment: Mapping[str, str], driver: str | None) -> Probe:
    variable = "CUDA_VISIBLE_DEVICES"
    choice = choose(variable, environment.get(variable), cards, list(_names(cards)))
    devices = tuple(device for card in choice.devices for device in card.devices)
    notes = [choice.note(sum(len(card.devices) for card in cards) - len(devices))]
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if choice.by_index and not by_bus and _differ(cards):
        notes.append(
            "the GPUs differ, and CUDA numbers the fastest first: these are numbered by their "
            "place on the bus; set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID"
        )
    sliced = [card for card in choice.devices if card.mig]
    notes += [
        f"MIG is on, but GPU {card.index} has no slice; make one, or turn MIG off"
        for card in sliced
        if not card.devices and not card.problem
    ]
    if sliced and len(devices) > 1:
        notes.append(f"CUDA uses one MIG slice at a time; name it in {variable}")
    return Probe(
        platform=Platform.CUDA,
        devices=devices,
        driver=driver,
        problem="; ".join(card.problem for card in choice.devices if card.problem) or None,
        note="; ".join(filter(None, notes)) or None,
    )


def _names(cards: list[_Card]) -> Iterator[tuple[str, _Card]]:
    for card in cards:
        if card.uuid:
            yield card.uuid, card
        if card.mig:
            for device in card.devices:
                yield device.id or "", replace(card, devices=(device,))


def _differ(cards: list[_Card]) -> bool:
    kinds = {
        (device.name, device.architecture, device.memory_total)
        for card in cards
        for device in card.devices
    }
    return len(kinds) > 1
