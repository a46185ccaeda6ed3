# SPDX-License-Identifier: Apache-2.0
"""How old experience is when it has changed the parameters: the step-to-gradient latency."""

from __future__ import annotations

from collections import deque

import torch

from seed_hpc.training.streams import Instant

WINDOW_ROLLOUTS = 100
_POINTS = 16  # of a rollout; its steps are evenly spread over its time


class StepToGradient:
    """Latencies of the last hundred rollouts, from an environment step to the end of the rollout's updates."""

    def __init__(self) -> None:
        self._rollouts: deque[tuple[Instant, Instant, Instant]] = deque(maxlen=WINDOW_ROLLOUTS)

    def __len__(self) -> int:
        return len(self._rollouts)

    def add(self, began: Instant, filled: Instant, learned: Instant) -> None:
        """Adds a rollout: when its first step began, its last step ended, and its updates ended."""
        self._rollouts.append((began, filled, learned))

    def quantiles(self) -> dict[str, float]:
        """Returns the median and the 95 % quantile in seconds; on CUDA this waits for the newest update."""
        if not self._rollouts:
            return {}
        oldest = torch.tensor([began.seconds_to(learned) for began, _, learned in self._rollouts])
        newest = torch.tensor([filled.seconds_to(learned) for _, filled, learned in self._rollouts])
        share = (torch.arange(_POINTS) + 0.5) / _POINTS
        ages = torch.lerp(oldest[:, None], newest[:, None], share[None, :])
        p50, p95 = torch.quantile(ages, torch.tensor([0.5, 0.95])).tolist()
        return {"step_to_gradient_p50_s": p50, "step_to_gradient_p95_s": p95}
