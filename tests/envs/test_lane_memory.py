# SPDX-License-Identifier: Apache-2.0
"""Memory of an environment: what its stack, its machine and the pictures that it must keep take, in every game."""

import numpy as np
import pytest

import seed_hpc
from seed_hpc.envs.games import game_names

LIMIT_BYTES = 64 * 1024


def largest_lane_bytes(game: str, steps: int) -> tuple[int, int]:
    """Returns the most bytes that a lane of random play held, and the least: of one that stores no pictures."""
    env = seed_hpc.AtariVectorEnv(game, 2, num_threads=1, episodic_life=True)
    generator = np.random.default_rng(0)
    env.reset(seed=1)
    sizes = [env.memory_bytes()[0]]
    for _ in range(steps):
        env.step(generator.integers(env.single_action_space.n, size=2))
        sizes.append(env.memory_bytes()[0])
    env.close()
    return max(sizes), min(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("game", game_names())
def test_an_environment_fits(game):
    assert largest_lane_bytes(game, 100)[0] <= LIMIT_BYTES


# journey_escape: no frame reaches the last rows; tic_tac_toe_3d: frames without an end.
@pytest.mark.parametrize("game", ["journey_escape", "tic_tac_toe_3d"])
def test_games_that_store_pictures_fit(game):
    most, _ = largest_lane_bytes(game, 300)
    assert largest_lane_bytes("pong", 3)[0] < most <= LIMIT_BYTES
