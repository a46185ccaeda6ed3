# SPDX-License-Identifier: Apache-2.0
"""Properties of the vector environment: a lane's trajectory depends on its seed and actions, and on nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seed_hpc

STEPS = 24
RNGS = st.sampled_from(["ale", "counter"])
GAMES = st.sampled_from(["pong", "breakout", "qbert"])
SETTINGS = settings(max_examples=12, deadline=None, derandomize=True)


def make(game, num_envs, **options):
    defaults = {
        "num_threads": 1,
        "repeat_action_probability": 0.25,
        "episodic_life": True,
        "max_num_frames_per_episode": 50,
        "noop_max": 4,
    }
    return seed_hpc.make_vec(game, num_envs, **(defaults | options))


def actions_for(seed, lanes):
    """Actions of each lane, the same whatever lanes it runs beside."""
    return np.stack([np.random.default_rng([seed, lane]).integers(4, size=STEPS) for lane in lanes], axis=1)


def play(env, seeds, actions):
    trace = [env.reset(seed=np.array(seeds))[0].copy()]
    for row in actions:
        results = env.step(row)
        trace += [np.array(array) for array in (*results[:4], results[4]["episode_frame_number"])]
    return trace


@SETTINGS
@given(GAMES, RNGS, st.integers(1, 5), st.integers(0, 3))
def test_number_of_threads_does_not_matter(game, rng, num_threads, seed):
    seeds, actions = [seed + lane for lane in range(6)], actions_for(seed, range(6))
    one = play(make(game, 6, rng=rng), seeds, actions)
    many = play(make(game, 6, rng=rng, num_threads=num_threads), seeds, actions)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)


@SETTINGS
@given(GAMES, RNGS, st.permutations(range(4)), st.integers(1, 4))
def test_order_and_company_in_the_batch_do_not_matter(game, rng, order, num_lanes):
    lanes = list(order)[:num_lanes]
    whole = play(make(game, 4, rng=rng), range(4), actions_for(0, range(4)))
    part = play(make(game, num_lanes, rng=rng), lanes, actions_for(0, lanes))
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_array_equal(a[lanes], b)


@SETTINGS
@given(GAMES, RNGS, st.lists(st.tuples(st.integers(0, STEPS - 1), st.booleans()), max_size=4))
def test_resets_of_other_lanes_do_not_matter(game, rng, resets):
    actions = actions_for(0, range(3))
    calm, busy = make(game, 3, rng=rng), make(game, 3, rng=rng)
    expected = play(calm, range(3), actions)[1::5]
    busy.reset(seed=np.arange(3))
    for step, row in enumerate(actions):
        for _, seeded in (entry for entry in resets if entry[0] == step):
            mask = np.array([False, True, False])
            busy.reset(seed=np.array([77]) if seeded else None, options={"reset_mask": mask})
        observations = busy.step(row)[0]
        np.testing.assert_array_equal(observations[[0, 2]], expected[step][[0, 2]])


@SETTINGS
@given(GAMES, RNGS, st.integers(0, STEPS - 1), st.integers(0, 2), st.integers(0, 2))
def test_a_restored_lane_continues_as_the_original(game, rng, step, source, target):
    actions = actions_for(0, range(3))
    env = make(game, 3, rng=rng)
    expected = play(env, range(3), actions)[1::5]
    env.reset(seed=np.arange(3))
    for row in actions[:step]:
        env.step(row)
    snapshot = env.clone_lanes([source])[0]
    env.reset(seed=np.arange(40, 43))
    env.restore_lanes([snapshot], [target])
    assert env.clone_lanes([target])[0] == snapshot
    for later, row in enumerate(actions[step:], start=step):
        row[target] = actions[later, source]
        np.testing.assert_array_equal(env.step(row)[0][target], expected[later][source])


@SETTINGS
@given(st.integers(1, 5), st.integers(1, 4))
def test_small_batches_change_no_trajectory(batch_size, num_threads):
    actions = actions_for(0, range(5))
    expected = play(make("breakout", 5), range(5), actions)
    observations_of = [expected[0], *expected[1::5]]
    env = make("breakout", 5, batch_size=batch_size, num_threads=num_threads)
    observations, infos = env.reset(seed=np.arange(5))
    seen = np.zeros(5, dtype=int)
    while seen.min() < 8:
        lanes = infos["env_id"]
        for row, lane in enumerate(lanes.tolist()):
            np.testing.assert_array_equal(observations[row], observations_of[seen[lane]][lane])
        seen[lanes] += 1
        observations, _, _, _, infos = env.step(actions[seen[lanes] - 1, lanes])


def test_a_broken_shortcut_would_be_seen():
    """The comparisons above can fail: another action in one lane changes that lane and no other."""
    actions = actions_for(0, range(3))
    other = actions.copy()
    other[3:, 1] = (other[3:, 1] + 1) % 4
    a, b = (play(make("breakout", 3), range(3), rows) for rows in (actions, other))
    np.testing.assert_array_equal(a[-5][[0, 2]], b[-5][[0, 2]])
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(a[-5][1], b[-5][1])
