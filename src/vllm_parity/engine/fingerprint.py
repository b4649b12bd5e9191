"""What the process that runs vLLM is made of: versions, device, libraries, variables."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import Any

_PACKAGES = ("torch", "transformers", "numpy", "triton", "numba", "xgrammar")
_LIBRARIES = re.compile(
    r"^(VLLM|HF|TRANSFORMERS|TORCH\w*|PYTORCH|TRITON|FLASHINFER"  # vLLM and what it is made of
    r"|OMP|GOMP|KMP|MKL|OPENBLAS|DNNL|ONEDNN|MALLOC"  # CPU libraries
    r"|CUDA|CUDNN|CUBLAS|NCCL|HIP\w*|HSA|ROC\w*|RCCL|MIOPEN|TENSILE)_"  # GPU libraries
)
_PRIVATE = re.compile(
    r"PATH|DIR|ROOT|HOME|FILE|PORT|HOST|IP$|ADDR|URL|ENDPOINT|KEY|TOKEN|SECRET|PASS"
    r"|_PARITY_"
    r"|VISIBLE_DEVICES"  # which of equal GPUs it is, is no setting
)
_RECORDED = "PARITY_RECORDED"


def fingerprint() -> dict[str, str]:
    """Return the environment part of an observation; every value is text."""
    import torch
    import vllm

    build = torch.__config__.show()
    blas = re.search(r"BLAS_INFO=(\w+)", build)
    onednn = re.search(r"MKL-DNN (v[\d.]+)", build)
    found = {
        "vllm": vllm.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **_device(torch),
        "blas": blas.group(1) if blas else "unknown",
        "onednn": onednn.group(1) if onednn else "none",
        "threads": str(torch.get_num_threads()),
        "cores": str(len(os.sched_getaffinity(0))),
    }
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def recorded(environment: dict[str, str]) -> dict[str, str]:
    """Add to a process's variables the names of those that are to be recorded.

    What vLLM sets for itself later, such as names of shared memory, is another in each process.
    """
    names = [name for name in environment if _LIBRARIES.match(name) and not _PRIVATE.search(name)]
    return {**environment, _RECORDED: " ".join(sorted(names))}


def visible_variables() -> dict[str, str]:
    """Return the variables that vLLM or its libraries read and that this process began with.

    vLLM's own are given as vLLM understands them; paths, ports and keys never are.
    """
    from vllm import envs

    names = [name for name in os.environ[_RECORDED].split() if name in os.environ]
    return {
        name: str(getattr(envs, name)) if hasattr(envs, name) else os.environ[name]
        for name in names
    }


def _device(torch: Any) -> dict[str, str]:  # noqa: ANN401 - the module
    """Return the device's name and architecture: the GPU's where there is one."""
    if not torch.cuda.is_available():
        return {"device": _processor(), "arch": torch.backends.cpu.get_cpu_capability()}
    properties = torch.cuda.get_device_properties(0)
    # AMD's builds name the architecture, with features after a colon; NVIDIA's have the card there.
    name = getattr(properties, "gcnArchName", "").partition(":")[0]
    numbered = f"sm_{properties.major}{properties.minor}"
    return {"device": properties.name, "arch": name if name.startswith("gfx") else numbered}


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model.group(1).strip() if model else "unknown"
