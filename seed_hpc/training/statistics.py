# SPDX-License-Identifier: Apache-2.0
"""Counts what a run has done: frames, episodes, and the returns of the last hundred of them."""

from __future__ import annotations

from collections import deque
from typing import Any

from seed_hpc.agents.rollout import Rollout

WINDOW_EPISODES = 100


class Statistics:
    """Totals of a run, over all processes for frames, of this process for episodes.

    Args:
        frames_per_step: Emulated frames per agent step.
        world_size: Number of processes; all make equally many steps.
    """

    def __init__(self, frames_per_step: int, world_size: int = 1) -> None:
        self.frames_per_step, self.world_size = frames_per_step, world_size
        self.agent_steps = 0
        self.episodes = 0
        self.returns: deque[float] = deque(maxlen=WINDOW_EPISODES)
        self.lengths: deque[int] = deque(maxlen=WINDOW_EPISODES)

    @property
    def frames(self) -> int:
        """Emulated frames so far."""
        return self.agent_steps * self.frames_per_step

    @property
    def mean_return(self) -> float | None:
        """Mean of the last hundred returns; None before the first."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def mean_length(self) -> float | None:
        """Mean agent steps of the last hundred episodes; None before the first."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None

    def add(self, rollout: Rollout) -> None:
        """Counts a rollout that is complete: on CUDA `Actor.synchronize` comes first."""
        self.agent_steps += rollout.num_steps * rollout.num_envs * self.world_size
        returns = rollout.episode_return_TB.cpu()
        ended = ~returns.isnan()
        self.returns.extend(returns[ended].tolist())
        self.lengths.extend(rollout.episode_steps_TB.cpu()[ended].tolist())
        self.episodes += int(ended.sum())

    def state_dict(self) -> dict[str, Any]:
        """Returns the totals."""
        return {
            "agent_steps": self.agent_steps,
            "episodes": self.episodes,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        self.agent_steps, self.episodes = int(state["agent_steps"]), int(state["episodes"])
        self.returns = deque(state["returns"], maxlen=WINDOW_EPISODES)
        self.lengths = deque(state["lengths"], maxlen=WINDOW_EPISODES)
