# SPDX-License-Identifier: Apache-2.0
"""Makes the environments of a run and the agent for them: the one place where training and evaluation choose."""

from __future__ import annotations

import typing
from typing import Any, Protocol

import torch
from torch import Tensor

from seed_hpc.agents import agent_class
from seed_hpc.agents.agent import Agent
from seed_hpc.config import EnvConfig, Experiment
from seed_hpc.errors import UserError


class Environments(Protocol):
    """B environments as a gymnasium VectorEnv with autoreset `NextStep`, whose arrays are torch tensors."""

    num_envs: int
    single_observation_space: Any
    single_action_space: Any

    def reset(self, *, seed: int | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Begins new episodes and returns the first observations (B, X)."""
        ...

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Returns observations (B, X), rewards (B,), terminated (B,), truncated (B,), information."""
        ...

    def step_into(
        self, actions: Tensor, observations: Tensor, rewards: Tensor, terminations: Tensor, truncations: Tensor
    ) -> None:
        """Steps and writes the results into the caller's tensors, without a copy."""
        ...

    def clone_lanes(self) -> list[bytes]:
        """Returns the whole state of all environments, random generators included."""
        ...

    def restore_lanes(self, snapshots: list[bytes]) -> None:
        """Continues from what `clone_lanes` returned, with identical results."""
        ...

    def close(self) -> None:
        """Frees threads and memory."""
        ...


def num_actions(space: Any) -> int:
    """Returns the number of actions of a discrete space, or of the numbers in an action of a continuous one."""
    return int(space.shape[0]) if is_continuous(space) else int(space.n)


def is_continuous(space: Any) -> bool:
    """Whether actions are numbers instead of one of so many."""
    return not hasattr(space, "n")


def make_agent(experiment: Experiment, envs: Any, device: torch.device) -> Agent:
    """Returns the experiment's agent, made for these environments; raises UserError where the two do not fit."""
    return agent_class(experiment.agent.name)(
        experiment.agent,
        experiment.model,
        envs.single_observation_space.shape,
        num_actions(envs.single_action_space),
        continuous=is_continuous(envs.single_action_space),
        num_envs=envs.num_envs,
        device=device,
    )


def make_environments(config: EnvConfig, *, num_envs: int, device: torch.device, **changes: Any) -> Environments:
    """Makes environments.

    Rewards are not clipped here: the actor clips what the learner sees and counts returns as they are.

    Args:
        config: The experiment's section `env`.
        num_envs: B.
        device: Where they run and where their tensors are.
        changes: Arguments of Atari games that differ from the configuration, for example `grayscale=False`; other
            environments take no notice.

    Raises:
        UserError: Unknown game, or a ROM or library is missing.
    """
    import seed_hpc
    from seed_hpc.envs import translation
    from seed_hpc.envs.environment_table import is_environment

    if is_environment(config.game):
        if config.frameskip != 1:
            raise UserError(
                f"env.frameskip={config.frameskip} belongs to Atari games, '{config.game}' is none: set env.frameskip=1"
            )
        shared: dict[str, Any] = {"num_threads": config.num_threads, "data": config.data or None}
        shared |= {"output": "torch", "device": str(device), **config.options}
        return typing.cast("Environments", seed_hpc.make_vec(config.game, num_envs, **shared))
    if config.options or config.data:
        raise UserError(f"env.options and env.data belong to other environments than the Atari game '{config.game}'")
    translation.prepare(config.game)
    arguments: dict[str, Any] = {
        "num_threads": config.num_threads,
        "frameskip": config.frameskip,
        "stack_num": config.stack_num,
        "img_height": config.img_height,
        "img_width": config.img_width,
        "maxpool": config.maxpool,
        "noop_max": config.noop_max,
        "use_fire_reset": config.use_fire_reset,
        "episodic_life": config.episodic_life,
        "life_loss_info": config.life_loss_info,
        "repeat_action_probability": config.repeat_action_probability,
        "full_action_space": config.full_action_space,
        "max_num_frames_per_episode": config.max_num_frames_per_episode,
        "reward_clipping": False,
        "output": "torch",
        "device": str(device),
        **changes,
    }
    return typing.cast("Environments", seed_hpc.make_vec(config.game, num_envs, **arguments))
