# SPDX-License-Identifier: Apache-2.0
"""The continuous action space of the Atari environments: a joystick position becomes an action and a strength.

Source: J. Farebrother, P. S. Castro, "CALE: Continuous Arcade Learning Environment", NeurIPS 2024. The arithmetic is
NumPy's in float32, as in ale-py, so that the same positions give the same actions to the last bit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Row: down, centre, up. Column: left, centre, right. The numbers are ale-py's actions without and with FIRE.
_ACTIONS = np.array(
    [
        [[9, 5, 8], [4, 0, 3], [7, 2, 6]],
        [[17, 13, 16], [12, 1, 11], [15, 10, 14]],
    ],
    np.int32,
)


def discrete_actions(
    actions: npt.ArrayLike, threshold: float = 0.5
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Returns the actions (0..17) and paddle strengths that joystick positions stand for.

    Args:
        actions: (..., 3) radius 0..1, angle in radians (0 is right, pi/2 is up), fire 0..1.
        threshold: What a coordinate must exceed to count as a direction, and fire to count as pressed.

    Returns:
        Action numbers, int32, and strengths, float32 (the radius; it scales the movement of a paddle), both (...).
    """
    actions = np.asarray(actions, np.float32)
    radius, angle, fire = actions[..., 0], actions[..., 1], actions[..., 2]
    column, row = (
        1 + (part > threshold).astype(np.int32) - (part < -threshold)
        for part in (radius * np.cos(angle), radius * np.sin(angle))
    )
    return _ACTIONS[(fire > threshold).astype(np.int32), row, column], radius
