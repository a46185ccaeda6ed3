# SPDX-License-Identifier: Apache-2.0
"""Environments as one would write them in NumPy, all lanes at once: the comparison of `seed-hpc bench env`, and the
oracle of the native ones in the tests.

They follow the same equations step by step in float32, with NumPy's own sine and cosine. Random numbers are NumPy's.
Autoreset is `NextStep`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Bools = NDArray[np.bool_]


class NumpyEnvironment(ABC):
    """B lanes whose state is `self.state`, a dictionary of arrays with leading dimension B.

    Args:
        num_envs: B.
    """

    max_episode_steps: int
    action_size: int

    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs
        self.state: dict[str, Array] = {}
        self.episode_steps = np.zeros(num_envs, np.int32)
        self.ended = np.zeros(num_envs, np.bool_)
        self.generator = np.random.default_rng()

    @abstractmethod
    def initial_state(self) -> dict[str, Array]:
        """Returns the state of B fresh episodes."""

    @abstractmethod
    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """Moves all lanes and returns rewards (B,) and terminations (B,)."""

    @abstractmethod
    def observe(self) -> Array:
        """Returns the observations (B, n)."""

    def reset(self, *, seed: int | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts all episodes."""
        self.generator = np.random.default_rng(seed)
        self.state = self.initial_state()
        self.episode_steps[:] = 0
        self.ended[:] = False
        return self.observe(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Bools, Bools, dict[str, Any]]:
        """Steps all lanes as a gymnasium vector does."""
        begin = self.ended
        rewards, terminations = self.advance(np.clip(actions, np.float32(-1), np.float32(1)))
        self.episode_steps += 1
        if begin.any():
            for name, value in self.initial_state().items():
                self.state[name][begin] = value[begin]
            self.episode_steps[begin] = 0
            rewards[begin] = 0
            terminations[begin] = False
        truncations = ~terminations & (self.episode_steps >= self.max_episode_steps)
        self.ended = terminations | truncations
        return self.observe(), rewards, terminations, truncations, {}


class NumpyBall(NumpyEnvironment):
    """`ball`, see cuda/envs/ball.h."""

    max_episode_steps = 1000
    action_size = 2
    gravity = np.float32(9.81)
    tilt_rate = np.float32(math.radians(2.0))

    def initial_state(self) -> dict[str, Array]:
        """See `NumpyEnvironment`."""
        tilt = np.radians(self.generator.uniform(-10, 10, (2, self.num_envs))).astype(np.float32)
        position = np.full((self.num_envs, 3), 4, np.float32)
        position[:, ::2] = self.generator.uniform(-1.5, 1.5, (self.num_envs, 2))
        return {
            "tilt_z": tilt[0],
            "tilt_x": tilt[1],
            "position": position,
            "velocity": np.zeros((self.num_envs, 3), np.float32),
        }

    def _plate(self) -> tuple[Array, Array, Array]:
        sin_z, cos_z = np.sin(self.state["tilt_z"]), np.cos(self.state["tilt_z"])
        sin_x, cos_x = np.sin(self.state["tilt_x"]), np.cos(self.state["tilt_x"])
        along_x = np.stack((cos_z, sin_z, np.zeros_like(sin_z)), -1)
        along_z = np.stack((sin_x * sin_z, -sin_x * cos_z, cos_x), -1)
        return along_x, along_z, np.stack((-sin_z * cos_x, cos_z * cos_x, sin_x), -1)

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """See `NumpyEnvironment`."""
        state, dt, limit = self.state, np.float32(0.02), np.float32(0.5054)
        for _ in range(5):
            position, velocity = state["position"], state["velocity"]
            before = self._plate()[2]
            state["tilt_z"] = np.clip(state["tilt_z"] + self.tilt_rate * actions[:, 0], -limit, limit)
            state["tilt_x"] = np.clip(state["tilt_x"] + self.tilt_rate * actions[:, 1], -limit, limit)
            velocity[:, 1] -= self.gravity * dt
            position += dt * velocity
            along_x, along_z, normal = self._plate()
            distance = (position * normal).sum(-1)
            touches = (np.abs((position * along_x).sum(-1)) <= 2.5) & (np.abs((position * along_z).sum(-1)) <= 2.5)
            touches &= (distance < 0.5) & (distance > 0)
            approach = (velocity * normal).sum(-1) + (position * (normal - before)).sum(-1) / dt
            push = np.where(touches & (approach < 0), -approach, np.float32(0))
            velocity += push[:, None] * normal
            position += np.where(touches, np.float32(0.5) - distance, np.float32(0))[:, None] * normal
            spun_up = np.where(touches, np.float32(2 / 7) * dt * self.gravity, np.float32(0))
            velocity -= (spun_up * normal[:, 1])[:, None] * normal
            velocity[:, 1] += spun_up
        position = state["position"]
        lost = (position[:, 1] < -2) | (np.abs(position[:, 0]) > 3) | (np.abs(position[:, 2]) > 3)
        return np.where(lost, np.float32(-1), np.float32(0.1)), lost

    def observe(self) -> Array:
        """See `NumpyEnvironment`."""
        tilt = np.stack((self.state["tilt_z"], self.state["tilt_x"]), -1) / np.float32(0.5054)
        place = self.state["position"] / np.float32(2.5)
        return np.concatenate((tilt, place, self.state["velocity"] / np.float32(5)), -1)
