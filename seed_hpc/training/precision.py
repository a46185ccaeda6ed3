# SPDX-License-Identifier: Apache-2.0
"""Numeric precision of the network through torch.amp: fp32, bf16, or fp16 with a gradient scaler."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import torch

from seed_hpc.errors import UserError

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """Autocast and gradient scaling.

    Args:
        name: fp32, bf16 or fp16.
        device: Of the network.

    Raises:
        UserError: fp16 on a CPU.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "fp16" and device.type != "cuda":
            raise UserError("training.precision=fp16 needs a CUDA device: choose fp32 or bf16")
        self.name, self.dtype, self.device = name, _DTYPES[name], device
        self.scaler = torch.amp.GradScaler("cuda", enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager[Any]:
        """Returns the context in which the network runs."""
        if self.name == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.dtype)
