# SPDX-License-Identifier: Apache-2.0
"""SEED-HPC: environments, inference, replay and learner of deep reinforcement learning on one accelerator.

The public names are loaded when they are first used, so that importing the package needs no GPU, MPI or Snakemake.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it.
_PUBLIC = {
    "make_vec": "seed_hpc.envs.vector",
    "AtariVectorEnv": "seed_hpc.envs.vector",
    "ALEInterface": "seed_hpc.envs.interface",
    "UserError": "seed_hpc.errors",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'seed_hpc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
