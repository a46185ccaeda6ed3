# SPDX-License-Identifier: Apache-2.0
"""The vector of native environments: the contract of each, gymnasium's interface, ends of episodes, wrong usage."""

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import seed_hpc
from seed_hpc.envs.check import check_environment
from seed_hpc.envs.environment_table import library_environments
from seed_hpc.errors import UserError

ENVIRONMENTS = sorted(library_environments())


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_keeps_the_contract(name):
    check_environment(name)


def zeros(envs):
    return np.zeros(envs.action_space.shape, envs.action_space.dtype)


def test_spaces_and_infos():
    envs = seed_hpc.make_vec("ball", 5)
    assert envs.single_observation_space.shape == (8,)
    assert envs.single_observation_space.dtype == np.float32
    assert envs.action_space.shape == (5, 2)
    observations, infos = envs.reset(seed=0)
    assert observations in envs.observation_space
    assert infos["env_id"].tolist() == [0, 1, 2, 3, 4]
    _, rewards, terminations, truncations, infos = envs.step(zeros(envs))
    assert (rewards.dtype, terminations.dtype, truncations.dtype) == (np.float32, np.bool_, np.bool_)
    assert infos["episode_steps"].tolist() == [1] * 5
    envs.close()


def test_held_arrays_are_never_written_again():
    envs = seed_hpc.make_vec("ball", 4)
    envs.reset(seed=0)
    held = [envs.step(zeros(envs)) for _ in range(20)]
    copies = [(row[0].copy(), row[4]["episode_steps"].copy()) for row in held]
    for _ in range(30):
        envs.step(zeros(envs))
    for row, (observations, steps) in zip(held, copies, strict=True):
        assert np.array_equal(row[0], observations)
        assert np.array_equal(row[4]["episode_steps"], steps)
    envs.close()


def test_infos_are_the_callers():
    envs = seed_hpc.make_vec("ball", 2)
    observations, infos = envs.reset(seed=1)
    infos["env_id"][:] = 7
    again, infos = envs.reset(seed=1)
    assert infos["env_id"].tolist() == [0, 1]
    assert np.array_equal(again, observations)
    infos["env_id"][:] = 7
    assert envs.step(zeros(envs))[4]["env_id"].tolist() == [0, 1]
    envs.close()


def test_the_limit_of_steps_truncates():
    envs = seed_hpc.make_vec("ball", 3, max_episode_steps=4)
    envs.reset(seed=0)
    for _ in range(3):
        *_, truncations, _ = envs.step(zeros(envs))
        assert not truncations.any()
    *_, truncations, infos = envs.step(zeros(envs))
    assert truncations.all()
    _, rewards, _, truncations, infos = envs.step(zeros(envs))
    assert not rewards.any()
    assert not truncations.any()
    assert infos["episode_steps"].tolist() == [0, 0, 0]
    envs.close()


def test_disabled_autoreset_waits_for_the_caller():
    envs = seed_hpc.make_vec("ball", 2, max_episode_steps=2, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.step(zeros(envs))
    envs.step(zeros(envs))
    with pytest.raises(UserError, match="lane 0 has ended"):
        envs.step(zeros(envs))
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(UserError, match="lane 1 has ended"):
        envs.step(zeros(envs))
    envs.reset(options={"reset_mask": np.array([False, True])})
    envs.step(zeros(envs))
    envs.close()


def test_a_mask_resets_its_lanes_and_reports_the_others():
    envs = seed_hpc.make_vec("ball", 3)
    first, _ = envs.reset(seed=5)
    first = first.copy()
    moved, *_ = envs.step(zeros(envs))
    moved = moved.copy()
    after, _ = envs.reset(seed=5, options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(after[1], first[1])
    assert np.array_equal(after[[0, 2]], moved[[0, 2]])
    envs.close()


def test_first_env_id_moves_the_lanes_of_a_large_vector():
    large, part = seed_hpc.make_vec("ball", 8), seed_hpc.make_vec("ball", 3, first_env_id=5)
    assert np.array_equal(large.reset(seed=9)[0][5:], part.reset(seed=9)[0])
    large.close()
    part.close()


def test_a_seed_for_each_lane_makes_its_number_irrelevant():
    envs = seed_hpc.make_vec("ball", 3)
    observations, _ = envs.reset(seed=[4, 7, 4])
    assert np.array_equal(observations[0], observations[2])
    assert not np.array_equal(observations[0], observations[1])
    envs.close()


def test_step_into_writes_the_callers_tensors():
    envs, twin = seed_hpc.make_vec("ball", 4, output="torch"), seed_hpc.make_vec("ball", 4)
    envs.reset(seed=0)
    twin.reset(seed=0)
    observations, rewards = torch.zeros(4, 8), torch.zeros(4)
    flags = torch.zeros(2, 4, dtype=torch.bool)
    envs.step_into(torch.ones(4, 2), observations, rewards, flags[0], flags[1])
    expected = twin.step(np.ones((4, 2), np.float32))
    assert np.array_equal(observations.numpy(), expected[0])
    assert np.array_equal(rewards.numpy(), expected[1])
    with pytest.raises(UserError, match="observations must be a writable contiguous float32"):
        envs.step_into(torch.ones(4, 2), observations[:, :4], rewards, flags[0], flags[1])
    envs.close()
    twin.close()


def test_options_change_the_environment():
    heavy, light = seed_hpc.make_vec("ball", 1), seed_hpc.make_vec("ball", 1, gravity=1.0)
    for envs in (heavy, light):
        envs.reset(seed=0)
    assert heavy.step(zeros(heavy))[0][0, 3] < light.step(zeros(light))[0][0, 3]
    heavy.close()
    light.close()


def test_state_of_all_lanes():
    envs, other = seed_hpc.make_vec("ball", 3), seed_hpc.make_vec("ball", 3)
    envs.reset(seed=0)
    envs.step(zeros(envs))
    state = envs.clone_state()
    other.restore_state(state)
    assert np.array_equal(envs.observe(), other.observe())
    for damaged in (state[:-1], b"x" + state[1:], state[:-1] + bytes([state[-1] ^ 1])):
        with pytest.raises(UserError, match=r"damaged|no state|no snapshot"):
            other.restore_state(damaged)
    assert np.array_equal(envs.observe(), other.observe())
    envs.close()
    other.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0"),
        ({"num_threads": -1}, "num_threads is -1"),
        ({"gravty": 1.0}, r"no option 'gravty' \(did you mean 'gravity'\?\)"),
        ({"gravity": "much"}, "must be a number"),
        ({"gravity": float("nan")}, "gravity is not finite"),
        ({"max_episode_steps": -1}, "must be at least 0"),
        ({"autoreset_mode": "sometimes"}, "autoreset_mode is 'sometimes'"),
        ({"device": "gpu"}, "must be 'cpu', 'cuda' or 'cuda:N'"),
        ({"rng": "ale"}, "belongs to Atari games"),
        ({"data": "no_such_file"}, "cannot be read"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments, message):
    with pytest.raises(UserError, match=message):
        seed_hpc.make_vec("ball", **{"num_envs": 2, **arguments})


def test_an_unknown_name_is_told_by_the_games():
    with pytest.raises(UserError, match="there is no game 'bal'"):
        seed_hpc.make_vec("bal", 1)


def test_wrong_actions_move_no_lane():
    envs = seed_hpc.make_vec("ball", 2)
    envs.reset(seed=0)
    before = envs.observe().copy()
    for actions, message in [
        (np.zeros(2), "shape"),
        (np.full((2, 2), np.nan), "not finite"),
        (np.zeros((2, 2), bool), "must be numbers"),
    ]:
        with pytest.raises(UserError, match=message):
            envs.step(actions)
    assert np.array_equal(envs.observe(), before)
    with pytest.raises(UserError, match="no reference policy"):
        envs.reference_actions()
    envs.close()


def test_a_closed_vector_and_one_without_reset_say_so():
    envs = seed_hpc.make_vec("ball", 2)
    with pytest.raises(UserError, match="call reset first"):
        envs.step(zeros(envs))
    envs.close()
    with pytest.raises(UserError, match="is closed"):
        envs.step(np.zeros((2, 2), np.float32))
