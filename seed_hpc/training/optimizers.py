# SPDX-License-Identifier: Apache-2.0
"""Optimizers by name, from torch or NVIDIA apex, and the learning rate over a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from seed_hpc.config import OptimizerConfig
from seed_hpc.errors import MissingDependencyError, UserError


def build_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig, device: torch.device
) -> torch.optim.Optimizer:
    """Returns the optimizer of an experiment.

    Raises:
        MissingDependencyError: optimizer.backend=apex without NVIDIA apex.
        UserError: apex has no such update rule, or needs CUDA.
    """
    if config.backend == "apex":
        return _apex_optimizer(parameters, config, device)
    if config.name == "adam":
        return torch.optim.Adam(
            parameters, config.learning_rate, (config.beta1, config.beta2), config.epsilon, fused=True
        )
    if config.name == "radam":
        return torch.optim.RAdam(
            parameters, config.learning_rate, (config.beta1, config.beta2), config.epsilon, foreach=True
        )
    return torch.optim.RMSprop(parameters, config.learning_rate, config.rms_decay, config.epsilon, foreach=True)


def _apex_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig, device: torch.device
) -> torch.optim.Optimizer:
    if config.name != "adam":
        raise UserError(f"optimizer.backend=apex has no {config.name}: choose optimizer.name=adam or backend=torch")
    if device.type != "cuda":
        raise UserError("optimizer.backend=apex needs a CUDA device: choose optimizer.backend=torch")
    try:
        import apex
    except ImportError as error:
        raise MissingDependencyError(
            "optimizer.backend=apex needs NVIDIA apex, built from https://github.com/NVIDIA/apex; "
            "or choose optimizer.backend=torch"
        ) from error
    optimizers: Any = getattr(apex, "optimizers", None)
    if not hasattr(optimizers, "FusedAdam"):
        raise MissingDependencyError(
            "the installed package 'apex' is not NVIDIA's (PyPI holds an unrelated one of that name): pip uninstall "
            "apex, build https://github.com/NVIDIA/apex, or choose optimizer.backend=torch"
        )
    fused: torch.optim.Optimizer = optimizers.FusedAdam(
        parameters, lr=config.learning_rate, betas=(config.beta1, config.beta2), eps=config.epsilon
    )
    return fused


def learning_rate(config: OptimizerConfig, frames: int, total_frames: int) -> float:
    """Returns the learning rate after `frames` of `total_frames`: linear warm-up, then constant or linear to zero."""
    rate = config.learning_rate
    if frames < config.warmup_frames:
        return rate * frames / config.warmup_frames
    if config.schedule == "linear":
        rate *= max(0.0, 1.0 - frames / total_frames)
    return rate
