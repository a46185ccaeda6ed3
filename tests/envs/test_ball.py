# SPDX-License-Identifier: Apache-2.0
"""`ball` against the same equations in NumPy, against mechanics, and balanced by a hand-written controller."""

import numpy as np
import pytest

import seed_hpc
from seed_hpc.baselines.numpy_environments import NumpyBall

GRAVITY, STEP, LIMIT = 9.81, 0.1, 0.5054


def state_of(observation):
    """The state that an observation shows, float32."""
    tilt = observation[:, :2] * np.float32(LIMIT)
    place = {"position": observation[:, 2:5] * np.float32(2.5), "velocity": observation[:, 5:] * np.float32(5)}
    return {"tilt_z": tilt[:, 0].copy(), "tilt_x": tilt[:, 1].copy(), **place}


def test_each_step_equals_the_equations_in_numpy():
    envs, reference = seed_hpc.make_vec("ball", 64), NumpyBall(64)
    generator = np.random.default_rng(0)
    observation, _ = envs.reset(seed=1)
    num_lost = 0
    for _ in range(300):
        action = generator.uniform(-1.3, 1.3, (64, 2)).astype(np.float32)
        reference.state = state_of(observation)
        rewards, lost = reference.advance(np.clip(action, -1, 1))
        after, found_rewards, terminations, truncations, infos = envs.step(action)
        lives = infos["episode_steps"] > 0  # the others have just begun an episode
        # A ball within rounding of the plate's edge or surface may touch in one and not in the other.
        close = np.abs(reference.observe() - after).max(-1) < 1e-4
        assert close[lives].mean() > 0.95
        same = lives & close
        assert np.array_equal(terminations[same], lost[same])
        np.testing.assert_array_equal(found_rewards[same], rewards[same])
        num_lost += terminations.sum()
        observation = after.copy()
        assert not truncations.any()
    assert num_lost > 50
    envs.close()


def test_a_ball_in_the_air_falls_freely():
    envs = seed_hpc.make_vec("ball", 8)
    first, _ = envs.reset(seed=3)
    after, *_ = envs.step(np.zeros((8, 2), np.float32))
    # Semi-implicit Euler: n(n+1)/2 g dt^2 after n steps.
    np.testing.assert_allclose((after - first)[:, 3] * 2.5, -15 * GRAVITY * 0.02**2, rtol=1e-5)
    np.testing.assert_allclose(after[:, 6] * 5, -GRAVITY * STEP, rtol=1e-5)
    envs.close()


def test_a_ball_on_a_still_plate_rolls_with_five_sevenths_of_the_gravity():
    envs = seed_hpc.make_vec("ball", 64)
    envs.reset(seed=2)
    still = np.zeros((64, 2), np.float32)
    for _ in range(11):  # falls, and comes to rest against the plate
        envs.step(still)
    before, *_ = envs.step(still)
    before = before.copy()
    after, *_, infos = envs.step(still)
    rolls = (infos["episode_steps"] > 0) & (np.abs(before[:, [2, 4]]).max(-1) < 0.6)
    assert rolls.sum() > 20
    tilt_z, tilt_x = before[rolls, 0] * LIMIT, before[rolls, 1] * LIMIT
    normal = np.stack((-np.sin(tilt_z) * np.cos(tilt_x), np.cos(tilt_z) * np.cos(tilt_x), np.sin(tilt_x)), -1)
    along = GRAVITY * normal[:, 1:2] * normal - np.array([0, GRAVITY, 0])
    np.testing.assert_allclose((after - before)[rolls, 5:] * 5 / STEP, 5 / 7 * along, atol=2e-3)
    envs.close()


@pytest.mark.parametrize("gravity", [9.81, 3.0])
def test_a_controller_keeps_the_ball_for_the_whole_episode(gravity):
    """Tilt against place and speed; 1000 steps pay 100."""
    envs = seed_hpc.make_vec("ball", 32, gravity=gravity)
    observation, _ = envs.reset(seed=0)
    total = np.zeros(32)
    for step in range(1000):
        want_z = 0.3 * observation[:, 2] + 0.6 * observation[:, 5]
        want_x = -0.3 * observation[:, 4] - 0.6 * observation[:, 7]
        wanted = np.stack((want_z, want_x), -1) / LIMIT
        observation, rewards, terminations, truncations, _ = envs.step(3 * (wanted - observation[:, :2]))
        total += rewards
        assert not terminations.any(), step
    assert truncations.all()
    np.testing.assert_allclose(total, 100, rtol=1e-5)
    envs.close()
