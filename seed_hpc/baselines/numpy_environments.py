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


class NumpyQuadruped(NumpyEnvironment):
    """`quadruped`, see cuda/envs/quadruped.h, in the general form: Jacobians of all bodies and a dense mass matrix.

    The coordinates are x, z, pitch, then thigh and shank of each leg. A body at the end of a chain of vectors r_i
    that turn with the coordinates q_i has the Jacobian columns dr_i/dq_i and the bias acceleration -sum r_i qdot_i^2.
    """

    max_episode_steps = 500
    action_size = 8
    num_coordinates = 11
    hips = np.array([0.3, 0.3, -0.3, -0.3])
    gravity, friction = 9.81, 0.8
    step_seconds = 0.00125

    def initial_state(self) -> dict[str, Array]:
        """See `NumpyEnvironment`."""
        q = np.zeros((self.num_envs, self.num_coordinates), np.float32)
        q[:, 2] = self.generator.uniform(-0.05, 0.05, self.num_envs)
        noise = self.generator.uniform(-0.1, 0.1, (self.num_envs, 4, 2))
        q[:, 3::2] = q[:, 2:3] + 0.5 + noise[..., 0]
        q[:, 4::2] = q[:, 3::2] - 1.0 + noise[..., 1]
        feet = np.sin(q[:, 2:3]) * self.hips - 0.25 * (np.cos(q[:, 3::2]) + np.cos(q[:, 4::2]))
        q[:, 1] = -feet.min(1)
        return {"q": q, "v": np.zeros_like(q), "on_ground": np.zeros((self.num_envs, 4), np.float32)}

    def _point(self, q: NDArray[Any], v: NDArray[Any], leg: int, thigh: float, shank: float) -> tuple[Any, Any, Any]:
        """Returns height, Jacobian (B, 2, 11) and bias acceleration (B, 2) of a point of a leg's chain."""
        jacobian = np.zeros((len(q), 2, self.num_coordinates), q.dtype)
        jacobian[:, 0, 0] = jacobian[:, 1, 1] = 1
        height = q[:, 1].copy()
        bias = np.zeros((len(q), 2), q.dtype)
        first = 3 + 2 * leg
        # A vector of length `length` in direction `angle` from straight down; the hip's lies a quarter turn ahead.
        for index, length, turn in ((2, self.hips[leg], np.pi / 2), (first, thigh, 0.0), (first + 1, shank, 0.0)):
            sine, cosine = length * np.sin(q[:, index] + turn), length * np.cos(q[:, index] + turn)
            height -= cosine
            jacobian[:, 0, index] += cosine
            jacobian[:, 1, index] += sine
            bias -= np.stack((sine, -cosine), -1) * np.square(v[:, index : index + 1])
        return height, jacobian, bias

    def accelerations(self, q: NDArray[Any], v: NDArray[Any], actions: NDArray[Any]) -> tuple[Any, Any, Any]:
        """Returns the accelerations (B, 11), which feet touch the ground (B, 4), and the squared torques (B,)."""
        batch, n = len(q), self.num_coordinates
        mass = np.zeros((batch, n, n), q.dtype)
        force = np.zeros((batch, n), q.dtype)
        mass[:, [0, 1], [0, 1]] = 10.0
        mass[:, 2, 2] = 0.41
        force[:, 1] = -10.0 * self.gravity
        touching, effort = np.zeros((batch, 4), bool), np.zeros(batch, q.dtype)
        for leg in range(4):
            one, two = 3 + 2 * leg, 4 + 2 * leg
            for weight, inertia, thigh, shank, turned in (
                (1.0, 0.0052, 0.125, 0.0, one),
                (0.5, 0.0026, 0.25, 0.125, two),
            ):
                _, jacobian, bias = self._point(q, v, leg, thigh, shank)
                mass += weight * np.einsum("bki,bkj->bij", jacobian, jacobian)
                mass[:, turned, turned] += inertia
                down = np.array([0.0, -self.gravity], q.dtype)
                force += weight * np.einsum("bki,bk->bi", jacobian, down - bias)
            for below, above, rest, action in ((one, 2, 0.5, 2 * leg), (two, one, -1.0, 2 * leg + 1)):
                relative = np.zeros(n, q.dtype)
                relative[[below, above]] = 1, -1
                mass += 0.01 * np.outer(relative, relative)  # the motor's rotor
                torque = 60 * (rest + 0.6 * actions[:, action] - q @ relative) - 1.5 * (v @ relative)
                torque = np.clip(torque, -40, 40)
                force += torque[:, None] * relative
                effort += (torque / 40) ** 2
            for shank in (0.0, 0.25):
                height, jacobian, _ = self._point(q, v, leg, 0.25, shank)
                speed = np.einsum("bki,bi->bk", jacobian, v)
                inside = height < 0
                normal = np.where(inside, np.maximum(0, -8000 * height - 60 * speed[:, 1]), 0)
                along = np.clip(-100 * speed[:, 0], -self.friction * normal, self.friction * normal)
                force += np.einsum("bki,bk->bi", jacobian, np.stack((along, normal), -1))
                if shank:
                    touching[:, leg] = inside
        return np.linalg.solve(mass, force[..., None])[..., 0], touching, effort

    def advance(self, actions: Array) -> tuple[Array, Bools]:
        """See `NumpyEnvironment`."""
        q, v = self.state["q"], self.state["v"]
        start, dt = q[:, 0].copy(), np.float32(self.step_seconds)
        effort = np.zeros(self.num_envs, np.float32)
        for _ in range(16):
            acceleration, touching, torques = self.accelerations(q, v, actions)
            v += (dt * acceleration).astype(v.dtype)
            q += dt * v
            effort += torques.astype(np.float32)
        self.state["on_ground"] = touching.astype(np.float32)
        speed = (q[:, 0] - start) / np.float32(0.02)
        rewards = np.minimum(speed, np.float32(1.5)) - np.float32(0.02) * effort / np.float32(128)
        return rewards, (q[:, 1] <= 0.2) | (np.abs(q[:, 2]) > 1)

    def observe(self) -> Array:
        """See `NumpyEnvironment`."""
        q, v = self.state["q"], self.state["v"]
        trunk = (q[:, 1], np.sin(q[:, 2]), np.cos(q[:, 2]), v[:, 0], v[:, 1], 0.25 * v[:, 2])
        legs = []
        for leg in range(4):
            one, two = 3 + 2 * leg, 4 + 2 * leg
            legs += [q[:, one] - q[:, 2] - 0.5, q[:, two] - q[:, one] + 1.0]
            legs += [0.1 * (v[:, one] - v[:, 2]), 0.1 * (v[:, two] - v[:, one]), self.state["on_ground"][:, leg]]
        return np.stack((*trunk, *legs), -1).astype(np.float32)
