# SPDX-License-Identifier: Apache-2.0
"""Prioritized replay of n-step transitions, as Ape-X draws them.

Sources: Schaul et al., "Prioritized Experience Replay" (2016); Horgan et al., "Distributed Prioritized Experience
Replay" (2018), https://arxiv.org/abs/1803.00933.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seed_hpc.replay import native
from seed_hpc.replay.ring import ArrayLike, ReplayBatch, ReplayRing


@dataclass(frozen=True, kw_only=True)
class Transitions(ReplayBatch):
    """N transitions; `obs_UNX[0]` are the observations acted on, `obs_UNX[1]` those to bootstrap from.

    Attributes:
        action_N: int64, taken at `obs_UNX[0]`.
        reward_N: float32, r_t + gamma r_t+1 + ... of the k <= n transitions up to the bootstrap or the episode's end.
        discount_N: float32, gamma^k, or 0 where the game ended: target = reward + discount * value(obs_UNX[1]).
    """

    action_N: Tensor
    reward_N: Tensor
    discount_N: Tensor


class PrioritizedReplay(ReplayRing):
    """Draws n-step transitions with a probability in proportion to (priority + eps)^alpha.

    Each frame is stored once; stacks are rebuilt when they are drawn, with zeros before an episode's first frame as the
    vector environments pad. Returns stop where an episode ends. An episode that was cut off (truncated) bootstraps from
    its true final observation.

        replay = PrioritizedReplay(num_envs=64, observation_shape=(4, 84, 84), stack_num=4)
        replay.append(obs_TBX=..., action_TB=..., ...)
        batch = replay.sample(512)
        replay.update(batch.index_N, batch.generation_N, errors_N.abs())

    Args:
        num_envs: B; each has a lane of the ring.
        observation_shape: X. With stack_num > 1 its first dimension is the stack, oldest frame first.
        capacity: Steps of all environments together, any number; rounded up to whole lanes.
        stack_num: Frames of an observation that the next one repeats; 1 stores observations whole.
        n_steps: n, the rewards of a return.
        discount: gamma.
        priority_exponent: alpha; 0 draws uniformly.
        importance_exponent: beta of the weights; `sample` can override it.
        priority_epsilon: eps, keeps items of priority 0 alive.
        seed: Of the draws; equal seed, contents and calls give equal draws.
        dtype: Of observations.
        device: Where rollouts come from and batches go; the ring itself is in the host's memory.
        num_threads: Threads that gather large batches on a CPU; 0 takes as many as torch.

    Raises:
        UserError: An option is not allowed; the message names it.
        MemoryError: The ring does not fit; the message tells its size.
    """

    def __init__(
        self,
        *,
        num_envs: int,
        observation_shape: Sequence[int],
        capacity: int = 1_000_000,
        stack_num: int = 1,
        n_steps: int = 3,
        discount: float = 0.99,
        priority_exponent: float = 0.6,
        importance_exponent: float = 0.4,
        priority_epsilon: float = 1e-6,
        seed: int = 0,
        dtype: torch.dtype = torch.uint8,
        device: torch.device | str = "cpu",
        num_threads: int = 0,
    ) -> None:
        super().__init__(
            kind=native.TRANSITIONS,
            num_envs=num_envs,
            observation_shape=observation_shape,
            capacity=capacity,
            stack_num=stack_num,
            period=1,
            reach=n_steps,
            state_size=0,
            discount=discount,
            priority_exponent=priority_exponent,
            importance_exponent=importance_exponent,
            priority_epsilon=priority_epsilon,
            seed=seed,
            dtype=dtype,
            device=device,
            num_threads=num_threads,
        )
        self.n_steps = n_steps

    def append(
        self,
        *,
        obs_TBX: ArrayLike,
        action_TB: ArrayLike,
        reward_TB: ArrayLike,
        first_TB: ArrayLike,
        last_TB: ArrayLike,
        terminated_TB: ArrayLike,
        priority_MB: ArrayLike | None = None,
    ) -> None:
        """Adds T steps of all environments, behind those of earlier calls without a gap.

        A transition can be drawn once the n steps after it are there too; this call completes M of each lane.

        Args:
            obs_TBX: Observations (T, B, X).
            action_TB: int64, taken at the observation.
            reward_TB: float32, finite, that followed.
            first_TB: bool, the observation begins an episode.
            last_TB: bool, the observation ended an episode; the next one begins another, action and reward are void.
            terminated_TB: bool, the transition from the observation ended the game (the next one is `last`).
            priority_MB: float32 (M, B), priorities of the transitions completed, oldest first; see `num_completed`.
                None gives them the largest priority there ever was.

        Raises:
            UserError: A shape, type or value is not allowed; nothing is changed.
        """
        self._append(obs_TBX, action_TB, reward_TB, first_TB, last_TB, terminated_TB, priority_MB, None)

    def sample(
        self, batch_size: int, *, importance_exponent: float | None = None, out: Transitions | None = None
    ) -> Transitions:
        """Draws transitions, one of each of `batch_size` equal strata of the cumulative priority, with replacement.

        Args:
            batch_size: N.
            importance_exponent: beta; None takes the replay's.
            out: An earlier batch of the same size whose memory may be used again.

        Raises:
            UserError: There is nothing to draw yet, or an argument is not allowed.
        """
        return self._draw(Transitions, batch_size, importance_exponent, out)

    def blank_batch(self, batch_size: int) -> Transitions:
        """Returns memory for a batch, for `out` of `sample`."""
        return self._new_batch(Transitions, batch_size, self.device)
