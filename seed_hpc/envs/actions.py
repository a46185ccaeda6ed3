# SPDX-License-Identifier: Apache-2.0
"""The eighteen actions of the Atari 2600 joystick, numbered as in the Arcade Learning Environment."""

from __future__ import annotations

import enum


class Action(enum.IntEnum):
    """What the player does during a frame."""

    NOOP = 0
    FIRE = 1
    UP = 2
    RIGHT = 3
    LEFT = 4
    DOWN = 5
    UPRIGHT = 6
    UPLEFT = 7
    DOWNRIGHT = 8
    DOWNLEFT = 9
    UPFIRE = 10
    RIGHTFIRE = 11
    LEFTFIRE = 12
    DOWNFIRE = 13
    UPRIGHTFIRE = 14
    UPLEFTFIRE = 15
    DOWNRIGHTFIRE = 16
    DOWNLEFTFIRE = 17
