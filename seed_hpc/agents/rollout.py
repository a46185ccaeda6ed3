# SPDX-License-Identifier: Apache-2.0
"""The unit of experience: T agent steps of B environments, and the observation after them.

Environments reset in the gymnasium way `NextStep`: the observation that ends an episode is delivered, the next step
ignores its action and delivers the first observation of the next episode. A rollout keeps both, so

    obs        o0  o1  o2  o3  o4  o5         o2 ends an episode: last[2] is True,
    last        .   .   L   .   .   .         the transition from o2 to o3 is void, valid[2] is False,
    first       .   .   .   F   .   .         o3 begins the next one: first[3] is True
    transition    0   1  (2)  3   4

and the true final observation is at hand where a truncated episode bootstraps from it. All shapes are constant, which
is what a CUDA graph needs.

Shapes: T steps, B environments, X the shape of an observation, S state numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seed_hpc.models.network import Inputs


@dataclass(kw_only=True)
class Rollout:
    """T steps of B environments.

    Attributes:
        inputs: What the network saw, T + 1 steps: observations (T+1, B, X) and what belongs to them.
        last_TB: bool (T+1, B), the observation ended an episode and the transition from it is void.
        terminated_TB: bool (T, B), the transition ended the episode by the rules of the game.
        behaviour: What the acting policy recorded, tensors (T, B, ...); see the agent's `act`.
        state_BS: State of the network's core before step 0.
        final_state_BS: State of the core before step T, the one beyond the last transition.
        episode_return_TB: float32 (T, B), the undiscounted, unclipped return of an episode that ended here, else NaN.
        episode_steps_TB: int64 (T, B), its agent steps, else 0.
        policy_version: How many updates the acting parameters had seen.
    """

    inputs: Inputs
    last_TB: Tensor
    terminated_TB: Tensor
    behaviour: dict[str, Tensor]
    state_BS: Tensor
    final_state_BS: Tensor
    episode_return_TB: Tensor
    episode_steps_TB: Tensor
    policy_version: int = 0

    @property
    def action_TB(self) -> Tensor:
        """(T, B), int64; or (T, B, A), float32, where actions are continuous."""
        return self.inputs.previous_action_TB[1:]

    @property
    def reward_TB(self) -> Tensor:
        """(T, B), float32: clipped if the experiment says so."""
        return self.inputs.previous_reward_TB[1:]

    @property
    def final_inputs(self) -> Inputs:
        """What the network sees at step T: one step."""
        return Inputs(*(x[-1:] for x in self.inputs))

    @property
    def valid_TB(self) -> Tensor:
        """(T, B), bool: False where the transition is void."""
        return ~self.last_TB[:-1]

    @property
    def num_steps(self) -> int:
        """T."""
        return self.terminated_TB.shape[0]

    @property
    def num_envs(self) -> int:
        """B."""
        return self.terminated_TB.shape[1]

    def select_envs(self, index_B: Tensor) -> Rollout:
        """Returns a copy with the environments of int64 `index_B` only."""
        return replace(
            self,
            inputs=Inputs(*(x.index_select(1, index_B) for x in self.inputs)),
            last_TB=self.last_TB.index_select(1, index_B),
            terminated_TB=self.terminated_TB.index_select(1, index_B),
            behaviour={name: x.index_select(1, index_B) for name, x in self.behaviour.items()},
            state_BS=self.state_BS.index_select(0, index_B),
            final_state_BS=self.final_state_BS.index_select(0, index_B),
            episode_return_TB=self.episode_return_TB.index_select(1, index_B),
            episode_steps_TB=self.episode_steps_TB.index_select(1, index_B),
        )

    def num_bytes(self) -> int:
        """Returns the memory of all tensors."""
        fields = (self.last_TB, self.terminated_TB, self.state_BS, self.final_state_BS)
        episodes = (self.episode_return_TB, self.episode_steps_TB)
        return sum(x.nbytes for x in (*self.inputs, *fields, *self.behaviour.values(), *episodes))

    def to_dict(self) -> dict[str, Tensor]:
        """Returns all tensors by name, for a dump."""
        return {
            **self.inputs._asdict(),
            "last_TB": self.last_TB,
            "terminated_TB": self.terminated_TB,
            "state_BS": self.state_BS,
            **{f"behaviour.{name}": x for name, x in self.behaviour.items()},
        }


@dataclass(kw_only=True)
class Steps:
    """Steps whose targets are known, without the observation after them: all that PPO and PQN still need.

    T is 1 where the network has no recurrent core: then any steps of a rollout may stand side by side.

    Attributes:
        inputs: What the network saw, (T, B, ...).
        action_TB: (T, B), int64; or (T, B, A), float32, where actions are continuous.
        valid_TB: bool (T, B), False where the transition is void.
        behaviour: What the acting policy recorded, and the targets, (T, B, ...).
        state_BS: State of the network's core before step 0.
        policy_version: How many updates the acting parameters had seen.
    """

    inputs: Inputs
    action_TB: Tensor
    valid_TB: Tensor
    behaviour: dict[str, Tensor]
    state_BS: Tensor
    policy_version: int = 0

    @classmethod
    def of(cls, rollout: Rollout) -> Steps:
        """Returns all steps of a rollout, as views."""
        return cls(
            inputs=Inputs(*(x[:-1] for x in rollout.inputs)),
            action_TB=rollout.action_TB,
            valid_TB=rollout.valid_TB,
            behaviour=rollout.behaviour,
            state_BS=rollout.state_BS,
            policy_version=rollout.policy_version,
        )

    def select_envs(self, index_B: Tensor) -> Steps:
        """Returns a copy with the environments of int64 `index_B` only."""
        return replace(
            self,
            inputs=Inputs(*(x.index_select(1, index_B) for x in self.inputs)),
            action_TB=self.action_TB.index_select(1, index_B),
            valid_TB=self.valid_TB.index_select(1, index_B),
            behaviour={name: x.index_select(1, index_B) for name, x in self.behaviour.items()},
            state_BS=self.state_BS.index_select(0, index_B),
        )

    def side_by_side(self) -> Steps:
        """Returns views of the same steps with T = 1, each as if it were of an environment of its own; no state."""

        def flat(x_TBX: Tensor) -> Tensor:
            return x_TBX.flatten(0, 1).unsqueeze(0)

        valid_TB = flat(self.valid_TB)
        return replace(
            self,
            inputs=Inputs(*(flat(x) for x in self.inputs)),
            action_TB=flat(self.action_TB),
            valid_TB=valid_TB,
            behaviour={name: flat(x) for name, x in self.behaviour.items()},
            state_BS=self.state_BS.new_zeros(valid_TB.shape[1], 0),
        )

    def to_dict(self) -> dict[str, Tensor]:
        """Returns all tensors by name, for a dump."""
        return {
            **self.inputs._asdict(),
            "action_TB": self.action_TB,
            "valid_TB": self.valid_TB,
            "state_BS": self.state_BS,
            **{f"behaviour.{name}": x for name, x in self.behaviour.items()},
        }

    def num_bytes(self) -> int:
        """Returns the memory of all tensors."""
        return sum(x.nbytes for x in self.to_dict().values())


def allocate_rollout(step: Inputs, behaviour: Mapping[str, Tensor], state_BS: Tensor, num_steps: int) -> Rollout:
    """Returns a rollout of zeros.

    Args:
        step: One step (T = 1) of B environments, for shapes, types and device.
        behaviour: What the agent records in one step, (B, ...) each.
        state_BS: State of the network's core.
        num_steps: T.

    Raises:
        MemoryError: The device has no room for it.
    """

    def buffer(like_BX: Tensor, length: int = num_steps) -> Tensor:
        try:
            return torch.zeros((length, *like_BX.shape), dtype=like_BX.dtype, device=like_BX.device)
        except RuntimeError as error:  # of torch's allocators, or of a size beyond 64 bits
            raise MemoryError(
                f"a rollout of {num_steps} steps of {like_BX.shape[0]} environments does not fit into the memory of "
                f"{like_BX.device}: lower training.unroll_length or env.num_envs"
            ) from error

    reward_B, first_B = step.previous_reward_TB[0], step.first_TB[0]
    return Rollout(
        inputs=Inputs(*(buffer(x[0], num_steps + 1) for x in step)),
        last_TB=buffer(first_B, num_steps + 1),
        terminated_TB=buffer(first_B),
        behaviour={name: buffer(x) for name, x in behaviour.items()},
        state_BS=torch.zeros_like(state_BS),
        final_state_BS=torch.zeros_like(state_BS),
        episode_return_TB=buffer(reward_B).fill_(torch.nan),
        episode_steps_TB=buffer(first_B.long()),
    )


def masked_mean(x_TB: Tensor, valid_TB: Tensor) -> Tensor:
    """Returns the mean of `x_TB` where `valid_TB` (a float mask) is one."""
    return (x_TB * valid_TB).sum() / valid_TB.sum().clamp_min(1.0)


def shuffled_minibatches(rollout: Rollout, num_minibatches: int, generator: torch.Generator) -> Iterator[Rollout]:
    """Splits a rollout over its environments, in random order: for updates that need whole unrolls."""
    if num_minibatches == 1:
        yield rollout
        return
    order_B = torch.randperm(rollout.num_envs, generator=generator).to(rollout.last_TB.device)
    for index_B in order_B.tensor_split(num_minibatches):
        yield rollout.select_envs(index_B)


def shuffled_steps(
    rollout: Rollout, num_minibatches: int, generator: torch.Generator, *, recurrent: bool
) -> Iterator[Steps]:
    """Splits the steps of a rollout in random order: for updates that look at each step alone.

    Args:
        rollout: With targets in its `behaviour`.
        num_minibatches: Parts; at most as many as there are steps, or environments if `recurrent`.
        generator: Of the order, on the CPU.
        recurrent: Keep unrolls whole and split over environments, for a core that reads one step after another.
            Otherwise every minibatch draws from all environments and moments. Neighbouring steps are so alike that a
            minibatch of whole unrolls would hold a handful of independent steps, and taking the mean from its
            advantages would take most of what they say.
    """
    steps = Steps.of(rollout)
    if num_minibatches == 1:
        yield steps
        return
    if not recurrent:
        steps = steps.side_by_side()
    order_B = torch.randperm(steps.valid_TB.shape[1], generator=generator).to(rollout.last_TB.device)
    for index_B in order_B.tensor_split(num_minibatches):
        yield steps.select_envs(index_B)
