# SPDX-License-Identifier: Apache-2.0
"""Measures the ceilings of the roofline on this device: memory bandwidth by copying, arithmetic by multiplying."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from seed_hpc.errors import UserError
from seed_hpc.profiling.analysis import Ceilings

_COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}  # far above any cache
_MATRIX_SIZE = {"cuda": 8192, "cpu": 1024}


def measure(device: str, *, repeats: int = 7) -> dict[str, Any]:
    """Measures both ceilings with float32; TF32 is off, as the roofline counts single precision operations.

    Args:
        device: "cuda" or "cpu".
        repeats: Timed runs of each; one more warms up.

    Returns:
        {"device", "flops": {"min", "median", "max"}, "bytes_per_s": {...}}; the median is the ceiling.

    Raises:
        UserError: The device is unknown or not there.
    """
    if device not in _COPY_BYTES:
        raise UserError(f"a device {device!r} is not known: use cuda or cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device: use --device cpu")
    source = torch.ones(_COPY_BYTES[device] // 4, device=device)
    target = torch.empty_like(source)
    size = _MATRIX_SIZE[device]
    left, right = torch.randn(size, size, device=device), torch.randn(size, size, device=device)
    product = torch.empty_like(left)
    tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        copy_s = _times(lambda: target.copy_(source), device, repeats)
        multiply_s = _times(lambda: torch.mm(left, right, out=product), device, repeats)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return {
        "device": name,
        "bytes_per_s": _spread([2 * _COPY_BYTES[device] / seconds for seconds in copy_s]),  # read and written
        "flops": _spread([2 * size**3 / seconds for seconds in multiply_s]),
    }


def from_json(document: dict[str, Any]) -> Ceilings:
    """Returns the ceilings of a document of `measure`."""
    return Ceilings(
        flops=float(document["flops"]["median"]), bytes_per_s=float(document["bytes_per_s"]["median"]), measured=True
    )


def _times(function: Callable[[], Any], device: str, repeats: int) -> list[float]:
    seconds = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return seconds[1:]


def _spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}
