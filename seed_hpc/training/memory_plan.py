# SPDX-License-Identifier: Apache-2.0
"""Predicts the memory of a run by part, without allocating it, and proposes sizes that fit.

Shapes are followed on torch's "meta" device, where tensors have shapes and no data: what autograd would keep for the
backward pass is summed as the loss is computed there. Everything else is counted from shapes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from seed_hpc.agents import agent_class
from seed_hpc.agents.agent import Agent, Batch
from seed_hpc.agents.replay_agent import ReplayAgent, ReplayConfig, Replayed
from seed_hpc.agents.rollout import Rollout, Steps, allocate_rollout
from seed_hpc.config import Experiment
from seed_hpc.errors import UserError
from seed_hpc.models.network import Inputs, Network
from seed_hpc.training.environments import is_continuous, num_actions

# CUDA context, libraries and their workspaces; of the order of what nvidia-smi shows for an idle torch process.
CUDA_CONTEXT_BYTES = 600 * 2**20
# Left free for fragmentation of the allocator.
HEADROOM = 0.9

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_OPTIMIZER_STATES = {"adam": 2, "radam": 2, "rmsprop": 1}


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """What a plan must know of the environments."""

    observation_shape: Sequence[int]
    observation_dtype: torch.dtype
    num_actions: int
    continuous: bool = False
    lane_bytes: int
    shared_bytes: int


def parse_size(text: str) -> int:
    """Returns the bytes of "16GiB", "500M" or "80 GB" (binary units in each spelling).

    Raises:
        UserError: It is not a size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if match is None or float(match.group(1)) == 0:
        raise UserError(f"'{text}' is not a size of memory: write 16GiB, 500M or 80GB")
    return int(float(match.group(1)) * _UNITS[match.group(2).upper()])


# The parts that stay in the host's memory when the run is on CUDA (`seed_hpc.replay.ring`).
ON_HOST = ("replay",)


def device_bytes(parts: dict[str, int]) -> int:
    """Returns how much of a plan for CUDA is on the device."""
    return sum(size for name, size in parts.items() if name not in ON_HOST)


def host_bytes(parts: dict[str, int]) -> int:
    """Returns how much of a plan for CUDA is in the host's memory."""
    return sum(parts.values()) - device_bytes(parts)


def plan_memory(experiment: Experiment, shapes: Shapes, *, cuda: bool = True) -> dict[str, int]:
    """Returns the bytes of each part of a run.

    Args:
        experiment: What would run; environments, batch and network count.
        shapes: Of the environments.
        cuda: Whether it runs on CUDA: then a context is needed, and the actor is a rollout ahead.
    """
    device = torch.device("cpu")
    agent = agent_class(experiment.agent.name)(
        experiment.agent,
        experiment.model,
        shapes.observation_shape,
        shapes.num_actions,
        continuous=shapes.continuous,
        num_envs=experiment.env.num_envs,
        device=device,
    )
    network = _blank_network(agent)
    rollout = _meta_rollout(agent, network, experiment, shapes)
    network = network.to("meta")
    parameter_bytes = sum(parameter.nbytes for parameter in network.parameters())
    ahead = experiment.training.rollouts_ahead
    num_buffers = 1 + (ahead if ahead >= 0 else int(cuda))
    batch: Rollout | Steps | Replayed
    if isinstance(agent, ReplayAgent):
        batch, replay_bytes = agent.plan(network, rollout)
        of_agent = {"target network": parameter_bytes, "replay": replay_bytes, "batch": batch.num_bytes()}
    else:
        batch = cast("Rollout | Steps", next(iter(agent.batches(network, rollout, torch.Generator()))))
        # A rollout that is not split is not copied either.
        of_agent = {"batch": batch.num_bytes() if getattr(experiment.agent, "minibatches", 1) > 1 else 0}
    parts = {
        "parameters": parameter_bytes,
        "acting copy of the parameters": parameter_bytes,
        "gradients": parameter_bytes,
        "optimizer": parameter_bytes * _OPTIMIZER_STATES[experiment.optimizer.name],
        "rollouts": rollout.num_bytes() * num_buffers,
        **of_agent,
        "activations of an update": activation_bytes(agent, network, batch),
        "environments": shapes.lane_bytes * experiment.env.num_envs + shapes.shared_bytes,
    }
    if cuda:
        parts["CUDA context and libraries"] = CUDA_CONTEXT_BYTES
    return parts


def activation_bytes(agent: Agent, network: nn.Module, batch: Batch) -> int:
    """Returns what autograd keeps for the backward pass of one loss, and the largest gradient on the way back."""
    given = {_storage(x) for x in (*network.parameters(), *batch.to_dict().values())}
    kept: dict[int, int] = {}
    largest_gradient = 0
    alive: list[Tensor] = []  # so that no storage is freed and its place taken by another

    def keep(x: Tensor) -> Tensor:
        nonlocal largest_gradient
        alive.append(x)
        if _storage(x) not in given:
            kept[_storage(x)] = x.untyped_storage().nbytes()
            if x.requires_grad:
                largest_gradient = max(largest_gradient, x.nbytes)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        agent.loss(network, batch)
    return sum(kept.values()) + largest_gradient


def propose(experiment: Experiment, shapes: Shapes, budget_bytes: int, host_budget_bytes: int) -> dict[str, int]:
    """Returns the largest sizes that fit, each with everything else as it is; 0 where none does.

    Args:
        experiment: What would run.
        shapes: Of the environments.
        budget_bytes: Memory of the device; a tenth of it is left free.
        host_budget_bytes: Memory of the host, for the replay; a tenth of it is left free.

    Returns:
        Powers of two for env.num_envs and, with a replay, agent.batch_size; agent.replay_capacity in thousands.
    """

    def fits(candidate: Experiment) -> bool:
        try:
            return fits_in(plan_memory(candidate, shapes), budget_bytes, host_budget_bytes)
        except UserError:  # so many environments share the replay that a lane holds no whole sequence
            return False

    sizes = {"env.num_envs": _largest_power(experiment.fewest_envs, lambda size: fits(with_num_envs(experiment, size)))}
    if isinstance(experiment.agent, ReplayConfig):
        sizes["agent.batch_size"] = _largest_power(1, lambda size: fits(_with_agent(experiment, batch_size=size)))
        parts = plan_memory(experiment, shapes)
        room = HEADROOM * host_budget_bytes - host_bytes(parts) + parts["replay"]
        steps = experiment.agent.replay_capacity * room / parts["replay"]
        sizes["agent.replay_capacity"] = max(0, int(steps) // 1000 * 1000)
    return sizes


def fits_in(parts: dict[str, int], budget_bytes: int, host_budget_bytes: int) -> bool:
    """Whether a plan leaves a tenth of both memories free."""
    return device_bytes(parts) <= HEADROOM * budget_bytes and host_bytes(parts) <= HEADROOM * host_budget_bytes


def _largest_power(smallest: int, fits: Callable[[int], bool]) -> int:
    """Returns the largest power of two, at least `smallest` and at most 2^20, up to which sizes fit; 0 if none."""
    best, low, high = 0, (smallest - 1).bit_length(), 20
    while low <= high:
        middle = (low + high) // 2
        if fits(2**middle):
            best, low = 2**middle, middle + 1
        else:
            high = middle - 1
    return best


def with_num_envs(experiment: Experiment, num_envs: int) -> Experiment:
    """Returns the experiment with another number of environments."""
    return dataclasses.replace(experiment, env=dataclasses.replace(experiment.env, num_envs=num_envs))


def _with_agent(experiment: Experiment, **changes: int) -> Experiment:
    return dataclasses.replace(experiment, agent=dataclasses.replace(experiment.agent, **changes))


def environment_shapes(envs: Any) -> Shapes:
    """Returns what a plan must know, from environments of the experiment (one is enough)."""
    lane_bytes, shared_bytes = envs.memory_bytes() if hasattr(envs, "memory_bytes") else (0, 0)
    observation, _ = envs.reset(seed=0)
    return Shapes(
        observation_shape=tuple(observation.shape[1:]),
        observation_dtype=observation.dtype,
        num_actions=num_actions(envs.single_action_space),
        continuous=is_continuous(envs.single_action_space),
        lane_bytes=lane_bytes,
        shared_bytes=shared_bytes,
    )


def _blank_network(agent: Agent) -> Network:
    """The agent's network with whatever is in its memory: drawing initial parameters takes longer than all the rest."""
    device, agent.device = agent.device, torch.device("meta")
    with agent.device:
        network = agent.build_network()
    agent.device = device
    return network.to_empty(device=device)


def _meta_rollout(agent: Agent, network: Network, experiment: Experiment, shapes: Shapes) -> Rollout:
    """A rollout without data; one real step of one environment tells what the agent records."""

    def step(num_envs: int, device: str) -> Inputs:
        lead = (1, num_envs)
        return Inputs(
            torch.zeros(*lead, *shapes.observation_shape, dtype=shapes.observation_dtype, device=device),
            torch.zeros(lead, dtype=torch.bool, device=device),
            agent.zero_action(num_envs).to(device).unsqueeze(0),
            torch.zeros(lead, device=device),
        )

    num_envs = experiment.env.num_envs
    with torch.no_grad():
        recorded = agent.act(network, step(1, "cpu"), network.initial_state(1), torch.Generator()).behaviour
    behaviour = {
        name: torch.zeros((num_envs, *x.shape[1:]), dtype=x.dtype, device="meta") for name, x in recorded.items()
    }
    state_BS = torch.zeros(num_envs, network.core.state_size, device="meta")
    return allocate_rollout(step(num_envs, "meta"), behaviour, state_BS, experiment.training.unroll_length)


def _storage(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)
