# SPDX-License-Identifier: Apache-2.0
"""Gives the actor the learner's newest parameters, on the device, ordered by events.

On CUDA actor and learner run on streams of their own. The copy waits for the update that it publishes, and the next
update waits for the copy: neither ever sees a half-written tensor, and the host never waits. On a CPU everything runs
in order anyway.
"""

from __future__ import annotations

import torch
from torch import nn

from seed_hpc.training.streams import Signal


class WeightPublication:
    """Copies the parameters of `source` (learner) to `target` (actor).

    Args:
        source: The learner's network.
        target: The actor's copy, of the same shape.
        device: Of both.
    """

    def __init__(self, source: nn.Module, target: nn.Module, device: torch.device) -> None:
        self._source = [*source.parameters(), *source.buffers()]
        self._target = [*target.parameters(), *target.buffers()]
        self._updated, self._copied = Signal(device), Signal(device)
        self.version = 0  # updates that `source` has seen
        self.copied_version = -1  # updates that `target` has seen

    def mark_updated(self, version: int) -> None:
        """Learner, on its stream: the parameters have seen `version` updates."""
        self.version = version
        self._updated.record()

    @torch.no_grad()
    def copy(self) -> int:
        """Actor, on its stream: takes the newest parameters and returns their version."""
        if self.copied_version != self.version:
            self._updated.wait()
            torch._foreach_copy_(self._target, self._source)
            self._copied.record()
            self.copied_version = self.version
        return self.copied_version

    def wait_for_copy(self) -> None:
        """Learner, on its stream: does not go on before the last copy is done."""
        self._copied.wait()
