# SPDX-License-Identifier: Apache-2.0
"""Notices that a run has stopped getting anywhere, at its checkpoints."""

from __future__ import annotations

from collections import deque

WINDOW_CHECKPOINTS = 10
MAX_FPS_SPREAD = 0.03  # of the slowest: faster or slower means that something still changes, or disturbs the run
MIN_RETURN_GAIN = 0.1


class ConvergenceDetector:
    """Converged: over ten checkpoints the speed stays within 3 % and the mean return gains less than 0.1."""

    def __init__(self) -> None:
        self._checkpoints: deque[tuple[float, float]] = deque(maxlen=WINDOW_CHECKPOINTS)

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
        return max(speeds) <= (1.0 + MAX_FPS_SPREAD) * min(speeds) and gain < MIN_RETURN_GAIN
