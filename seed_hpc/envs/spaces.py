# SPDX-License-Identifier: Apache-2.0
"""Observation and action spaces of the Atari environments."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces


def observation_space(stack_num: int, height: int, width: int, grayscale: bool) -> spaces.Box:
    """Returns the space of one observation: uint8 (stack_num, height, width) or (stack_num, height, width, 3)."""
    shape = (stack_num, height, width) if grayscale else (stack_num, height, width, 3)
    return spaces.Box(low=0, high=255, shape=shape, dtype=np.uint8)


def continuous_action_space() -> spaces.Box:
    """Returns the space of one continuous action: radius and angle of the stick, and the fire button."""
    low = np.array([0.0, -math.pi, 0.0], dtype=np.float32)
    high = np.array([1.0, math.pi, 1.0], dtype=np.float32)
    return spaces.Box(low=low, high=high, dtype=np.float32)
