# SPDX-License-Identifier: Apache-2.0
"""Who holds the memory of a run at this moment; the parts are named as in `seed-hpc plan`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from seed_hpc.training.actor import Actor
from seed_hpc.training.learner import Learner


def memory_by_owner(learner: Learner, actor: Actor, device: torch.device) -> dict[str, int]:
    """Returns bytes by owner, for a log line.

    On CUDA the owners add up to what the device has in use: torch's other tensors (activations, batches), what its
    allocator keeps in reserve, and everything outside of torch (context, libraries, other processes) are owners too.
    A replay is an owner of the host's memory.

    Args:
        learner: Holds parameters, gradients, the optimizer's state, and the agent with its target network and replay.
        actor: Holds the acting copy of the parameters, rollouts and environments.
        device: Where they are.
    """
    tensors = {
        "parameters": _bytes(_of_module(learner.network)),
        "acting copy of the parameters": _bytes(_of_module(actor.network)),
        "gradients": _bytes(x.grad for x in learner.network.parameters() if x.grad is not None),
        "optimizer": _bytes(x for state in learner.optimizer.state.values() for x in state.values()),
        "rollouts": actor.rollout_bytes(),
        **learner.agent.memory_bytes(),
    }
    environments = _environment_bytes(actor.envs)
    if device.type != "cuda":
        return {**tensors, "environments": environments}
    free, total = torch.cuda.mem_get_info(device)
    allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
    return {
        **tensors,
        "other tensors": max(0, allocated - sum(tensors.values()) + tensors.get("replay", 0)),
        "reserve of torch": reserved - allocated,
        "environments": environments,
        "outside torch": max(0, total - free - reserved - environments),
    }


def _of_module(module: nn.Module) -> Iterable[Tensor]:
    return (*module.parameters(), *module.buffers())


def _bytes(values: Iterable[Any]) -> int:
    return sum(value.nbytes for value in values if isinstance(value, Tensor))


def _environment_bytes(envs: Any) -> int:
    """What a pool of the native library holds; environments in Python say nothing of their memory."""
    if not hasattr(envs, "memory_bytes"):
        return 0
    per_lane, shared = envs.memory_bytes()
    return int(per_lane) * int(envs.num_envs) + int(shared)
