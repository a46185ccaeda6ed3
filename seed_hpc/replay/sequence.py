# SPDX-License-Identifier: Apache-2.0
"""Prioritized replay of sequences with the core state before them, as R2D2 draws them.

Source: Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (2019),
https://openreview.net/forum?id=r1lyTjAqYX, section 2.3 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seed_hpc.errors import UserError
from seed_hpc.replay import native
from seed_hpc.replay.ring import ArrayLike, ReplayBatch, ReplayRing


@dataclass(frozen=True, kw_only=True)
class Sequences(ReplayBatch):
    """N sequences of V = burn_in + length transitions, U = V + 1 observations, in the layout of an actor's rollout:
    the action and reward of transition t are `previous_action_UN[t + 1]` and `previous_reward_UN[t + 1]`.

    Attributes:
        last_UN: bool, the observation ended an episode; the transition from it is void.
        terminated_VN: bool, the transition ended the game.
        state_NS: float32, the core's state before observation 0, as the actor had it.
    """

    last_UN: Tensor
    terminated_VN: Tensor
    state_NS: Tensor


class SequenceReplay(ReplayRing):
    """Draws sequences with a probability in proportion to (priority + eps)^alpha.

    A sequence begins every `period` steps of an environment, and has burn_in + length + 1 observations; the first
    `burn_in` of them are there to bring the core's stored state up to date with newer parameters. Sequences lie on this
    fixed grid and may hold the end of an episode. Nothing is carried across it: stacks are padded, `first_UN` tells
    where the core's state is to be cleared, `last_UN` which transition is void.

    Args:
        num_envs: B; each has a lane of the ring.
        observation_shape: X. With stack_num > 1 its first dimension is the stack, oldest frame first.
        state_size: S, numbers of a core's state; 0 stores none.
        capacity: Steps of all environments together, any number; rounded up to whole lanes and periods.
        stack_num: Frames of an observation that the next one repeats; 1 stores observations whole.
        burn_in: Transitions before those to learn from.
        length: Transitions to learn from.
        period: Steps between the beginnings of two sequences.
        priority_exponent: alpha; 0 draws uniformly.
        importance_exponent: beta of the weights; `sample` can override it.
        priority_epsilon: eps, keeps items of priority 0 alive.
        seed: Of the draws.
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
        state_size: int = 0,
        capacity: int = 1_000_000,
        stack_num: int = 1,
        burn_in: int = 40,
        length: int = 80,
        period: int = 40,
        priority_exponent: float = 0.9,
        importance_exponent: float = 0.6,
        priority_epsilon: float = 1e-6,
        seed: int = 0,
        dtype: torch.dtype = torch.uint8,
        device: torch.device | str = "cpu",
        num_threads: int = 0,
    ) -> None:
        if burn_in < 0 or length < 1:
            raise UserError(f"burn_in={burn_in} must be at least 0 and length={length} at least 1")
        super().__init__(
            kind=native.SEQUENCES,
            num_envs=num_envs,
            observation_shape=observation_shape,
            capacity=capacity,
            stack_num=stack_num,
            period=period,
            reach=burn_in + length,
            state_size=state_size,
            discount=1.0,
            priority_exponent=priority_exponent,
            importance_exponent=importance_exponent,
            priority_epsilon=priority_epsilon,
            seed=seed,
            dtype=dtype,
            device=device,
            num_threads=num_threads,
        )
        self.burn_in, self.length, self.period = burn_in, length, period

    def append(
        self,
        *,
        obs_TBX: ArrayLike,
        action_TB: ArrayLike,
        reward_TB: ArrayLike,
        first_TB: ArrayLike,
        last_TB: ArrayLike,
        terminated_TB: ArrayLike,
        state_KBS: ArrayLike | None = None,
        priority_MB: ArrayLike | None = None,
    ) -> None:
        """Adds T steps of all environments, behind those of earlier calls without a gap.

        A sequence can be drawn once its last observation is there; this call completes M of each lane.

        Args:
            obs_TBX: Observations (T, B, X).
            action_TB: int64, taken at the observation.
            reward_TB: float32, finite, that followed.
            first_TB: bool, the observation begins an episode.
            last_TB: bool, the observation ended an episode; the next one begins another, action and reward are void.
            terminated_TB: bool, the transition from the observation ended the game (the next one is `last`).
            state_KBS: float32, the core's state before each of the K steps at which sequences begin: those whose number
                since the very first append is a multiple of `period`. Needed where state_size > 0.
            priority_MB: float32 (M, B), priorities of the sequences completed, oldest first; see `num_completed`.
                None gives them the largest priority there ever was.

        Raises:
            UserError: A shape, type or value is not allowed; nothing is changed.
        """
        self._append(obs_TBX, action_TB, reward_TB, first_TB, last_TB, terminated_TB, priority_MB, state_KBS)

    def sample(
        self, batch_size: int, *, importance_exponent: float | None = None, out: Sequences | None = None
    ) -> Sequences:
        """Draws sequences, one of each of `batch_size` equal strata of the cumulative priority, with replacement.

        Args:
            batch_size: N.
            importance_exponent: beta; None takes the replay's.
            out: An earlier batch of the same size whose memory may be used again.

        Raises:
            UserError: There is nothing to draw yet, or an argument is not allowed.
        """
        return self._draw(Sequences, batch_size, importance_exponent, out)

    def blank_batch(self, batch_size: int) -> Sequences:
        """Returns memory for a batch, for `out` of `sample`."""
        return self._new_batch(Sequences, batch_size, self.device)
