# SPDX-License-Identifier: Apache-2.0
"""Checks that an environment keeps its contract; for the tests of those who write one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seed_hpc.envs.native_vector import NativeVectorEnv

_NUM_ENVS = 24


def check_environment(name: str, *, num_steps: int = 300, seed: int = 0, data: Any = None, **options: float) -> None:
    """Plays random actions and checks what every environment promises.

    - Observations have the shape, type and range of their space; observations and rewards are finite.
    - A lane's episodes depend on its seed, number and actions alone: one lane, many lanes, one thread or several give
      the same bits.
    - A snapshot continues exactly as its original, in another vector too.
    - Lanes differ from one another, and so do episodes and seeds.
    - The autoreset modes differ in when the next episode begins and in nothing else.

    Args:
        name: Of the environment.
        num_steps: Steps to play.
        seed: Of the environments and the actions.
        data: As in `make_vec`.
        **options: As in `make_vec`.

    Raises:
        AssertionError: A promise is not kept; the message says which.
    """
    arguments: dict[str, Any] = {"data": data, **options}
    envs = NativeVectorEnv(name, _NUM_ENVS, num_threads=1, **arguments)
    actions = _random_actions(envs, num_steps, seed)
    track = _play(envs, actions, seed)
    _check_values(envs, track)
    _check_lanes_differ(track)
    _check_snapshots(envs, actions, seed, arguments)
    envs.close()

    threads = NativeVectorEnv(name, _NUM_ENVS, num_threads=3, **arguments)
    _same(track, _play(threads, actions, seed), "the number of threads changes the results")
    threads.close()

    lane = _NUM_ENVS // 2
    alone = NativeVectorEnv(name, 1, first_env_id=lane, **arguments)
    expected = {key: value[:, lane : lane + 1] for key, value in track.items()}
    _same(expected, _play(alone, actions[:, lane : lane + 1], seed), "a lane depends on the other lanes")
    alone.close()

    other = NativeVectorEnv(name, _NUM_ENVS, **arguments)
    again = other.reset(seed=seed + 1)[0]
    other.close()
    assert not np.array_equal(again, track["observations"][0]) or _has_one_start(track), "the seed changes nothing"
    _check_same_step(name, actions, seed, arguments)


def _random_actions(envs: NativeVectorEnv, num_steps: int, seed: int) -> NDArray[Any]:
    generator = np.random.default_rng(seed)
    shape = (num_steps, *(envs.action_space.shape or ()))
    if envs.continuous:
        return generator.uniform(-1.0, 1.0, shape).astype(np.float32)
    return generator.integers(envs.single_action_space.n, size=shape)  # type: ignore[attr-defined]


def _play(envs: NativeVectorEnv, actions: NDArray[Any], seed: int) -> dict[str, NDArray[Any]]:
    """Returns observations (T+1, B, ...), rewards, terminations, truncations and steps (T, B)."""
    observations = [envs.reset(seed=seed)[0].copy()]
    columns: list[list[NDArray[Any]]] = [[], [], [], []]
    for action in actions:
        observation, *rest, infos = envs.step(action)
        observations.append(observation.copy())
        for column, value in zip(columns, (*rest, infos["episode_steps"]), strict=True):
            column.append(value.copy())
    names = ("rewards", "terminations", "truncations", "steps")
    return {"observations": np.array(observations)} | {
        name: np.array(column) for name, column in zip(names, columns, strict=True)
    }


def _same(expected: dict[str, NDArray[Any]], found: dict[str, NDArray[Any]], complaint: str) -> None:
    for key, value in expected.items():
        assert value.tobytes() == found[key].tobytes(), f"{complaint} ({key})"


def _check_values(envs: NativeVectorEnv, track: dict[str, NDArray[Any]]) -> None:
    space, observations = envs.single_observation_space, track["observations"]
    assert observations.dtype == space.dtype
    assert observations.shape[2:] == space.shape
    assert np.isfinite(observations.astype(np.float64)).all(), "an observation is not finite"
    assert np.isfinite(track["rewards"]).all(), "a reward is not finite"
    low, high = space.low, space.high  # type: ignore[attr-defined]
    assert ((observations >= low) & (observations <= high)).all(), "an observation is outside of its space"
    limit = envs.info.max_episode_steps
    if limit:
        assert track["steps"].max() <= limit
        cut = (track["steps"] == limit) & ~track["terminations"]
        assert np.array_equal(cut, track["truncations"]), "an episode is not truncated at its limit"


def _has_one_start(track: dict[str, NDArray[Any]]) -> bool:
    first = track["observations"][0]
    return bool((first == first[0]).all())


def _check_lanes_differ(track: dict[str, NDArray[Any]]) -> None:
    observations = track["observations"]
    assert len(np.unique(observations[-1].reshape(_NUM_ENVS, -1), axis=0)) > 1, "all lanes are the same"
    assert (observations[1:] != observations[:-1]).any(), "nothing ever changes"


def _check_snapshots(envs: NativeVectorEnv, actions: NDArray[Any], seed: int, arguments: dict[str, Any]) -> None:
    envs.reset(seed=seed)
    half = len(actions) // 2
    for action in actions[:half]:
        envs.step(action)
    snapshots = envs.clone_lanes()
    later = [envs.step(action)[0].copy() for action in actions[half:]]
    other = NativeVectorEnv(
        envs.info.name if envs.info.library is None else str(envs.info.library), _NUM_ENVS, **arguments
    )
    other.restore_lanes(snapshots)
    repeated = [other.step(action)[0].copy() for action in actions[half:]]
    other.close()
    assert np.array(later).tobytes() == np.array(repeated).tobytes(), "a snapshot does not continue as its original"


def _check_same_step(name: str, actions: NDArray[Any], seed: int, arguments: dict[str, Any]) -> None:
    """Until the first end of an episode both modes agree; there SameStep shows the next episode's beginning."""
    usual = NativeVectorEnv(name, _NUM_ENVS, **arguments)
    eager = NativeVectorEnv(name, _NUM_ENVS, autoreset_mode="SameStep", **arguments)
    usual.reset(seed=seed)
    eager.reset(seed=seed)
    for action in actions:
        expected, rewards, terminations, truncations, _ = usual.step(action)
        observations, same_rewards, *_, infos = eager.step(action)
        done = terminations | truncations
        assert np.array_equal(rewards, same_rewards), "SameStep has other rewards than NextStep"
        assert np.array_equal(expected[~done], observations[~done]), "SameStep has other observations than NextStep"
        if done.any():
            assert np.array_equal(infos["final_obs"][done], expected[done]), "final_obs is not the last observation"
            first = usual.step(action)[0]
            assert np.array_equal(first[done], observations[done]), "SameStep begins another episode than NextStep"
            break
    usual.close()
    eager.close()
