# SPDX-License-Identifier: Apache-2.0
"""Numeric precision of the network: fp32, tf32, and through torch.amp bf16, or fp16 with a gradient scaler."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import torch

from seed_hpc.errors import UserError

_DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """Autocast and gradient scaling; on CUDA also whether the process multiplies float32 with TF32's 10 bits.

    Args:
        name: fp32, tf32, bf16 or fp16.
        device: Of the network.

    Raises:
        UserError: fp16 on a CPU.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "fp16" and device.type != "cuda":
            raise UserError("training.precision=fp16 needs a CUDA device: choose fp32 or bf16")
        if device.type == "cuda":  # torch's own default is TF32 for convolutions and not for matrix products
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        self.name, self.dtype, self.device = name, _DTYPES[name], device
        self.scaler = torch.amp.GradScaler("cuda", enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager[Any]:
        """Returns the context in which the network runs."""
        if self.dtype is torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, self.dtype)
