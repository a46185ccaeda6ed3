# SPDX-License-Identifier: Apache-2.0
"""Prioritized experience replay: frames stored once, drawn as n-step transitions or as sequences with a core state."""

from seed_hpc.replay.prioritized import PrioritizedReplay, Transitions
from seed_hpc.replay.sequence import SequenceReplay, Sequences

__all__ = ["PrioritizedReplay", "SequenceReplay", "Sequences", "Transitions"]
