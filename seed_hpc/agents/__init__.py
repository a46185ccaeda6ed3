# SPDX-License-Identifier: Apache-2.0
"""The learning algorithms, one readable file each, found by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seed_hpc.errors import UserError, nearest

if TYPE_CHECKING:
    from seed_hpc.agents.agent import Agent

# Name -> (module, agent class, option class). Modules load only when they are used.
AGENTS: dict[str, tuple[str, str, str]] = {
    "vtrace": ("seed_hpc.agents.vtrace", "VTrace", "VTraceConfig"),
    "ppo": ("seed_hpc.agents.ppo", "PPO", "PPOConfig"),
    "pqn": ("seed_hpc.agents.pqn", "PQN", "PQNConfig"),
    "apex_dqn": ("seed_hpc.agents.apex_dqn", "ApexDQN", "ApexDQNConfig"),
    "r2d2": ("seed_hpc.agents.r2d2", "R2D2", "R2D2Config"),
    "distillation": ("seed_hpc.agents.distillation", "Distillation", "DistillationConfig"),
}


def _entry(name: str) -> tuple[str, str, str]:
    if name not in AGENTS:
        raise UserError(f"unknown agent '{name}'{nearest(name, AGENTS)}; known: {', '.join(AGENTS)}")
    return AGENTS[name]


def agent_config_class(name: str) -> type[Any]:
    """Returns the option class of an agent.

    Raises:
        UserError: There is no agent of that name.
    """
    module, _, config_class = _entry(name)
    return getattr(import_module(module), config_class)  # type: ignore[no-any-return]


def agent_class(name: str) -> type[Agent]:
    """Returns the class of an agent; raises UserError as `agent_config_class` does."""
    module, cls, _ = _entry(name)
    return getattr(import_module(module), cls)  # type: ignore[no-any-return]
