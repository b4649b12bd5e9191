"""NVIDIA's GPUs: what NVML says, what is certain without it, and what CUDA would show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from machines import GIB, FakeCard, FakeNvml, on_pci, write

from vllm_parity.hardware.machine import Device, Probe
from vllm_parity.hardware.nvidia import probe_cuda
from vllm_parity.hardware.nvml import open_nvml

if TYPE_CHECKING:
    from pathlib import Path

A = "GPU-aaaaaaaa-2222-3333-4444-555555555555"
B = "GPU-abbbbbbb-2222-3333-4444-555555555555"
SLICE = "MIG-c0ffee00-2222-3333-4444-555555555555"
OTHER = "MIG-deadbeef-2222-3333-4444-555555555555"
TWO = (FakeCard(uuid=A), FakeCard(uuid=B))


def probe(root: Path, library: FakeNvml, **environment: str) -> Probe:
    return probe_cuda(root, environment, lambda: library)


def no_library() -> NoReturn:
    msg = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
    raise OSError(msg)


def ids(found: Probe) -> list[str | None]:
    return [device.id for device in found.devices]


def cut(*slices: FakeCard | None, **more: Any) -> FakeCard:
    return FakeCard(uuid=A, mig=list(slices), **more)


# What NVML says


def test_card_is_reported_whole(tmp_path: Path) -> None:
    library = FakeNvml(FakeCard(uuid=A))
    found = probe(tmp_path, library)
    assert found.devices == (
        Device(
            name="NVIDIA H100 80GB HBM3",
            architecture="sm_90",
            memory_total=80 * GIB,
            memory_free=79 * GIB,
            id=A,
        ),
    )
    assert (found.driver, found.problem, found.note) == ("570.133.20", None, None)
    assert library.stopped == 1


def test_no_card_is_certainly_none(tmp_path: Path) -> None:
    found = probe(tmp_path, FakeNvml())
    assert (found.devices, found.problem) == ((), None)


@pytest.mark.parametrize(
    ("call", "lost"),
    [
        ("name", {"name"}),
        ("capability", {"architecture"}),
        ("memory", {"memory_total", "memory_free"}),
    ],
)
def test_failed_call_leaves_its_field_unknown(tmp_path: Path, call: str, lost: set[str]) -> None:
    (device,) = probe(tmp_path, FakeNvml(FakeCard(errors={call: 999}))).devices
    fields = ("name", "architecture", "memory_total", "memory_free", "id")
    assert {name for name in fields if getattr(device, name) is None} == lost


def test_card_without_uuid_goes_by_its_index(tmp_path: Path) -> None:
    assert ids(probe(tmp_path, FakeNvml(FakeCard(errors={"uuid": 3})))) == ["0"]


def test_old_driver_has_the_first_version_of_memory_and_no_mig(tmp_path: Path) -> None:
    missing = ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMigMode", "nvmlErrorString")
    (device,) = probe(tmp_path, FakeNvml(FakeCard(), missing=missing)).devices
    assert (device.memory_total, device.memory_free) == (80 * GIB, 79 * GIB)


def test_driver_may_be_unknown(tmp_path: Path) -> None:
    errors = {"nvmlSystemGetDriverVersion": 999}
    assert probe(tmp_path, FakeNvml(FakeCard(), errors=errors)).driver is None


def test_card_that_cannot_be_opened_is_a_problem_beside_the_other(tmp_path: Path) -> None:
    found = probe(tmp_path, FakeNvml(FakeCard(errors={"handle": 15}), FakeCard(uuid=B)))
    assert ids(found) == [B]
    assert found.problem == "GPU 0 cannot be opened: GPU is lost (15); see nvidia-smi"


def test_hidden_card_that_cannot_be_opened_is_no_problem(tmp_path: Path) -> None:
    library = FakeNvml(FakeCard(errors={"handle": 15}), FakeCard(uuid=B))
    found = probe(tmp_path, library, CUDA_VISIBLE_DEVICES=B)
    assert (ids(found), found.problem) == ([B], None)


def test_count_that_fails_cannot_tell(tmp_path: Path) -> None:
    library = FakeNvml(errors={"nvmlDeviceGetCount_v2": 999}, missing=("nvmlErrorString",))
    found = probe(tmp_path, library)
    assert found.problem == "NVML does not answer: NVML error (999); see nvidia-smi"
    assert library.stopped == 1


def test_a_failed_end_is_no_finding(tmp_path: Path) -> None:
    assert probe(tmp_path, FakeNvml(FakeCard(), errors={"nvmlShutdown": 999})).problem is None


# Without NVML


def test_no_library_and_no_trace_is_certainly_none(tmp_path: Path) -> None:
    found = probe_cuda(tmp_path, {}, no_library)
    assert (found.devices, found.problem) == ((), None)


@pytest.mark.parametrize(
    ("files", "evidence"),
    [
        ({"/dev/nvidia0": ""}, "there is /dev/nvidia0"),
        ({"/proc/driver/nvidia/version": ""}, "there is /proc/driver/nvidia"),
        (on_pci("0x10de", "0x030200"), "PCI has a GPU of NVIDIA's at 0000:01:00.0"),
    ],
)
def test_no_library_but_a_trace_cannot_tell(
    tmp_path: Path, files: dict[str, str], evidence: str
) -> None:
    problem = probe_cuda(write(tmp_path, files), {}, no_library).problem
    assert problem is not None
    assert problem.startswith("NVML cannot be loaded: libnvidia-ml.so.1: cannot open")
    assert "install the NVIDIA driver" in problem
    assert problem.endswith(f"; yet {evidence}")


@pytest.mark.parametrize("device", [("0x10de", "0x040300"), ("0x8086", "0x030000")])
def test_sound_card_and_another_vendors_gpu_are_no_trace(
    tmp_path: Path, device: tuple[str, str]
) -> None:
    assert probe_cuda(write(tmp_path, on_pci(*device)), {}, no_library).problem is None


def test_mismatch_of_driver_and_library_cannot_tell(tmp_path: Path) -> None:
    write(tmp_path, on_pci("0x10de", "0x030200"))
    found = probe(tmp_path, FakeNvml(errors={"nvmlInit_v2": 18}))
    assert found.devices == ()
    assert found.problem == (
        "NVML does not answer: Driver/library version mismatch (18); reboot or reload the driver; "
        "yet PCI has a GPU of NVIDIA's at 0000:01:00.0"
    )


def test_library_without_driver_and_card_is_certainly_none(tmp_path: Path) -> None:
    assert probe(tmp_path, FakeNvml(errors={"nvmlInit_v2": 9})).problem is None


def test_library_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: name)
    assert open_nvml() == "libnvidia-ml.so.1"


# MIG


def test_slices_stand_in_place_of_their_card(tmp_path: Path) -> None:
    name = "NVIDIA H200 MIG 1g.18gb"
    part = FakeCard(name=name, uuid=SLICE, total=18 * GIB, free=17 * GIB)
    found = probe(tmp_path, FakeNvml(cut(None, part, capability=(9, 0))))
    assert found.devices == (
        Device(
            name=name,
            architecture="sm_90",
            memory_total=18 * GIB,
            memory_free=17 * GIB,
            id=SLICE,
        ),
    )
    assert found.note is None


def test_of_two_slices_cuda_uses_one(tmp_path: Path) -> None:
    library = FakeNvml(cut(FakeCard(uuid=SLICE), FakeCard(uuid=OTHER)))
    found = probe(tmp_path, library)
    assert ids(found) == [SLICE, OTHER]
    assert found.note == "CUDA uses one MIG slice at a time; name it in CUDA_VISIBLE_DEVICES"
    chosen = probe(tmp_path, library, CUDA_VISIBLE_DEVICES=OTHER)
    assert ids(chosen) == [OTHER]
    assert chosen.note == f"CUDA_VISIBLE_DEVICES={OTHER} hides 1 GPU"


def test_only_slice_by_its_uuid_hides_nothing(tmp_path: Path) -> None:
    found = probe(tmp_path, FakeNvml(cut(FakeCard(uuid=SLICE))), CUDA_VISIBLE_DEVICES=SLICE)
    assert (ids(found), found.note) == ([SLICE], None)


def test_index_and_uuid_of_a_card_stand_for_its_slices(tmp_path: Path) -> None:
    library = FakeNvml(cut(FakeCard(uuid=SLICE)), FakeCard(uuid=B))
    for entry in ("0", A):
        assert ids(probe(tmp_path, library, CUDA_VISIBLE_DEVICES=entry)) == [SLICE]


def test_card_without_a_slice_is_no_device_and_says_so(tmp_path: Path) -> None:
    found = probe(tmp_path, FakeNvml(cut()))
    assert (found.devices, found.problem) == ((), None)
    assert found.note == "MIG is on, but GPU 0 has no slice; make one, or turn MIG off"


def test_slices_that_cannot_be_listed_are_a_problem(tmp_path: Path) -> None:
    found = probe(tmp_path, FakeNvml(cut(errors={"slices": 4})))
    assert (found.devices, found.note) == ((), None)
    assert found.problem == (
        "the MIG slices of GPU 0 cannot be listed: Insufficient Permissions (4); see nvidia-smi -L"
    )


def test_slice_without_uuid_has_no_name(tmp_path: Path) -> None:
    assert ids(probe(tmp_path, FakeNvml(cut(FakeCard(errors={"uuid": 3}))))) == [None]


# Which number is which


@pytest.mark.parametrize(
    ("order", "says"), [({}, True), ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, False)]
)
def test_index_among_cards_that_differ_is_doubtful(
    tmp_path: Path, order: dict[str, str], says: bool
) -> None:
    small = FakeCard(name="NVIDIA T4", uuid=B, capability=(7, 5), total=16 * GIB)
    library = FakeNvml(small, FakeCard(uuid=A))
    found = probe(tmp_path, library, CUDA_VISIBLE_DEVICES="0", **order)
    assert ids(found) == [B]
    assert ("set CUDA_DEVICE_ORDER=PCI_BUS_ID" in (found.note or "")) is says
    assert probe(tmp_path, library, CUDA_VISIBLE_DEVICES=A).note == (
        f"CUDA_VISIBLE_DEVICES={A} hides 1 GPU"
    )


def test_variable_that_is_empty_hides_all(tmp_path: Path) -> None:
    found = probe(tmp_path, FakeNvml(FakeCard()), CUDA_VISIBLE_DEVICES="")
    assert (found.devices, found.problem) == ((), None)
    assert found.note == "CUDA_VISIBLE_DEVICES is empty and hides 1 GPU"


def test_order_of_the_variable_is_kept(tmp_path: Path) -> None:
    assert ids(probe(tmp_path, FakeNvml(*TWO), CUDA_VISIBLE_DEVICES="1, 0")) == [B, A]
