# SPDX-License-Identifier: Apache-2.0
"""Notices that a run has stopped getting anywhere, at its checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

WINDOW_CHECKPOINTS = 10
MAX_FPS_SPREAD = 0.03  # of the slowest: faster or slower means that something still changes, or disturbs the run
MIN_RETURN_GAIN = 0.1


class ConvergenceDetector:
    """Converged: over ten checkpoints the speed stays within 3 % and the mean return gains less than 0.1."""

    def __init__(self) -> None:
        self._checkpoints: deque[tuple[float, float]] = deque(maxlen=WINDOW_CHECKPOINTS)
        self.converged = False  # at any checkpoint so far

    def add(self, fps: float, mean_return: float | None) -> bool:
        """Adds a checkpoint and returns whether the run has converged.

        Args:
            fps: Frames per second since the checkpoint before.
            mean_return: Of the last hundred episodes; None before the first, which starts over.
        """
        if mean_return is None:
            self._checkpoints.clear()
            return False
        self._checkpoints.append((fps, mean_return))
        if len(self._checkpoints) < WINDOW_CHECKPOINTS:
            return False
        speeds = [fps for fps, _ in self._checkpoints]
        gain = self._checkpoints[-1][1] - self._checkpoints[0][1]
        steady = max(speeds) <= (1.0 + MAX_FPS_SPREAD) * min(speeds) and gain < MIN_RETURN_GAIN
        self.converged |= steady
        return steady

    def state_dict(self) -> dict[str, Any]:
        """Returns the checkpoints so far."""
        return {"checkpoints": list(self._checkpoints), "converged": self.converged}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state_dict` returned; an empty one starts over."""
        self._checkpoints = deque(state.get("checkpoints", ()), maxlen=WINDOW_CHECKPOINTS)
        self.converged = bool(state.get("converged", False))
