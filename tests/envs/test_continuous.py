# SPDX-License-Identifier: Apache-2.0
"""Continuous actions against ale-py: the actions that AtariEnv sends, near the thresholds too."""

from __future__ import annotations

from typing import Any

import ale_py
import numpy as np
import pytest
from ale_py.env import AtariEnv

from seed_hpc.envs.continuous import discrete_actions


class RecordingInterface:
    """Stands before the environment's ALEInterface and keeps what it is told to do."""

    def __init__(self, ale: ale_py.ALEInterface) -> None:
        self.ale = ale
        self.last: tuple[int, float] = (0, 0.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ale, name)

    def act(self, action: ale_py.Action, strength: float) -> int:
        self.last = (action.value, float(strength))
        return self.ale.act(action, strength)


def positions_near_threshold(rng: np.random.Generator, threshold: float, count: int) -> np.ndarray:
    """Positions whose horizontal part is within a few units in the last place of the threshold."""
    angle = rng.uniform(-1.0, 1.0, count).astype(np.float32)
    radius = (threshold / np.cos(angle.astype(np.float64))).astype(np.float32)
    radius += np.spacing(radius) * rng.integers(-3, 4, count)
    return np.stack([radius.clip(0, 1), angle, rng.random(count)], axis=1).astype(np.float32)


@pytest.mark.parametrize("threshold", [0.5, 0.1])
def test_actions_are_those_of_ale_py(threshold: float) -> None:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    env = AtariEnv("breakout", continuous=True, continuous_action_threshold=threshold, frameskip=1)
    env.reset(seed=1)
    env.ale = recorder = RecordingInterface(env.ale)
    rng = np.random.default_rng(0)
    anywhere = rng.uniform((0, -np.pi, 0), (1, np.pi, 1), (1500, 3)).astype(np.float32)
    positions = np.concatenate([anywhere, positions_near_threshold(rng, threshold, 300)])
    actions, strengths = discrete_actions(positions, threshold)
    for position, action, strength in zip(positions, actions, strengths, strict=True):
        env.step(position)
        assert recorder.last == (action, strength), position
    assert set(actions.tolist()) == set(range(18))


def test_shapes_and_corners() -> None:
    up_right = np.array([[[1.0, np.pi / 4, 0.6], [0.0, 0.0, 0.5]]])
    actions, strengths = discrete_actions(up_right)
    np.testing.assert_array_equal(actions, [[14, 0]])
    np.testing.assert_array_equal(strengths, np.float32([[1.0, 0.0]]))
    assert actions.dtype == np.int32
    assert strengths.dtype == np.float32
