# SPDX-License-Identifier: Apache-2.0
"""Catch as a vector environment: small, exact, and learnable in seconds.

A ball falls through a board of 10 rows and 5 columns; a paddle on the bottom row moves left, stays or moves right. At
the bottom the episode terminates with +1 (caught) or -1. A random policy returns about -0.6 (it catches one in five).
Source: Osband et al., "Behaviour Suite for Reinforcement Learning" (2020). Autoreset is gymnasium's NextStep.
"""

import pickle
from types import SimpleNamespace

import torch

ROWS, COLUMNS = 10, 5


class CatchEnvs:
    """B boards; observations uint8 (B, 1, 10, 5); `max_steps` truncates, `done_at` ends given lanes at given steps."""

    reward_dtype = torch.float32

    def __init__(self, num_envs, max_steps=10**9):
        self.num_envs, self.max_steps = num_envs, max_steps
        self.single_observation_space = SimpleNamespace(shape=(1, ROWS, COLUMNS))
        self.single_action_space = SimpleNamespace(n=3)
        self.generator = torch.Generator()
        self.closed = False

    def reset(self, *, seed=None):
        if seed is not None:
            self.generator.manual_seed(seed)
        self.row = torch.zeros(self.num_envs, dtype=torch.int64)
        self.ball = torch.randint(COLUMNS, (self.num_envs,), generator=self.generator)
        self.paddle = torch.full((self.num_envs,), COLUMNS // 2)
        self.steps = torch.zeros(self.num_envs, dtype=torch.int64)
        self.ended = torch.zeros(self.num_envs, dtype=torch.bool)
        return self._obs(), {}

    def step(self, actions):
        assert actions.dtype == torch.int64
        assert actions.shape == (self.num_envs,)
        begin = self.ended
        self.row = torch.where(begin, 0, self.row + 1)
        new_ball = torch.randint(COLUMNS, (self.num_envs,), generator=self.generator)
        self.ball = torch.where(begin, new_ball, self.ball)
        moved = (self.paddle + actions - 1).clamp(0, COLUMNS - 1)
        self.paddle = torch.where(begin, COLUMNS // 2, moved)
        self.steps = torch.where(begin, 0, self.steps + 1)
        terminated = self.row == ROWS - 1
        truncated = (self.steps >= self.max_steps) & ~terminated
        reward = torch.where(terminated, torch.where(self.ball == self.paddle, 1.0, -1.0), 0.0)
        self.ended = terminated | truncated
        return self._obs(), reward, terminated, truncated, {}

    def _obs(self):
        obs = torch.zeros(self.num_envs, 1, ROWS, COLUMNS, dtype=torch.uint8)
        lanes = torch.arange(self.num_envs)
        obs[lanes, 0, self.row, self.ball] = 255
        obs[lanes, 0, ROWS - 1, self.paddle] = 255
        return obs

    def step_into(self, actions, observations, rewards, terminations, truncations):
        obs, reward, terminated, truncated, _ = self.step(actions)
        observations.copy_(obs)
        rewards.copy_(reward)
        terminations.copy_(terminated)
        truncations.copy_(truncated)

    def clone_lanes(self):
        names = ("row", "ball", "paddle", "steps", "ended")
        state = {name: getattr(self, name).tolist() for name in names}
        return [pickle.dumps((state, self.generator.get_state().tolist()))]

    def restore_lanes(self, snapshots):
        values, generator = pickle.loads(snapshots[0])
        for name, value in values.items():
            setattr(self, name, torch.tensor(value))
        self.generator.set_state(torch.tensor(generator, dtype=torch.uint8))

    def close(self):
        self.closed = True
