# SPDX-License-Identifier: Apache-2.0
"""The vector environment: against ale-py's own, its interface, snapshots, and every user error."""

import copy
import pickle
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from ale_py.vector_env import AtariVectorEnv as AleVectorEnv
from gymnasium.vector import AutoresetMode

import seed_hpc
from seed_hpc.envs import parity
from seed_hpc.envs.games import find_game
from seed_hpc.envs.roms import rom_folder
from seed_hpc.errors import UserError


def make(game="breakout", num_envs=3, **options):
    return seed_hpc.AtariVectorEnv(game, num_envs, num_threads=1, **options)


def actions_of(env, steps, seed=0):
    return np.random.default_rng(seed).integers(env.single_action_space.n, size=(steps, env.batch_size))


def assert_same_results(left, right):
    for a, b in zip(left[:-1], right[:-1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert left[-1].keys() == right[-1].keys()
    for key in left[-1]:
        if key != "final_obs":
            np.testing.assert_array_equal(left[-1][key], right[-1][key])


# ---- Equality with ale-py ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", parity.VECTOR_VARIANTS)
def test_equals_ale_py(variant):
    game = "pong" if variant == "truncation" else "breakout"
    result = parity.compare_vector(game, seed=1, num_lanes=2, num_steps=150, variant=variant)
    assert result.difference is None, str(result.difference)
    assert result.frames == 300


# qbert, tic_tac_toe_3d: frames without an end; adventure: PAL, draws during a reset; klax: Superchip RAM;
# boxing: no lives; ms_pacman: a long start.
@pytest.mark.parametrize("game", ["qbert", "adventure", "klax", "boxing", "tic_tac_toe_3d", "ms_pacman"])
def test_equals_ale_py_in_unusual_games(game):
    result = parity.compare_vector(game, seed=3, num_lanes=2, num_steps=80, variant="episodic_life")
    assert result.difference is None, str(result.difference)


def test_modes_and_difficulties_equal_machines_of_ale_py():
    env = make("space_invaders", 3, mode=[0, 4, 15], difficulty=[0, 1, 0], noop_max=0, use_fire_reset=False)
    env.reset(seed=5)
    for lane, (mode, difficulty) in enumerate([(0, 0), (4, 1), (15, 0)]):
        pair = parity.MachinePair("space_invaders", 5 + lane)
        pair.ale.setMode(mode)
        pair.ale.setDifficulty(difficulty)
        pair.ale.reset_game()
        np.testing.assert_array_equal(env.ram()[lane], pair.ale.getRAM())
    # A new mode holds from the next reset on.
    pair = parity.MachinePair("space_invaders", 5)
    pair.ale.reset_game()
    pair.ale.setMode(4)
    pair.ale.reset_game()
    env.reset(options={"reset_mask": np.array([True, False, False]), "mode": 4})
    np.testing.assert_array_equal(env.ram()[0], pair.ale.getRAM())


def test_a_masked_reset_leaves_the_modes_of_other_lanes():
    env, plain = make("space_invaders", 3, mode=[0, 4, 0]), make("space_invaders", 3, mode=[0, 4, 0])
    for side in (env, plain):
        side.reset(seed=5)
    first = np.array([True, False, False])
    env.reset(seed=5, options={"reset_mask": first, "mode": 15, "difficulty": [1, 1, 1]})
    state = env.clone_lanes([0])[0]
    for side in (env, plain):  # with the generators as they were
        side.reset(seed=[6, 7], options={"reset_mask": ~first})
    assert env.clone_lanes([1, 2]) == plain.clone_lanes([1, 2])
    assert env.clone_lanes([0]) == [state]
    env.reset(seed=5, options={"difficulty": [0, 0, 0]})
    both = make("space_invaders", 3, mode=[15, 4, 0])
    both.reset(seed=5)
    assert env.clone_state() == both.clone_state()
    # backgammon starts with a difficulty that is none of its own.
    env = make("backgammon", 3)
    env.reset(seed=5)
    env.reset(options={"reset_mask": first, "difficulty": 3})


def test_a_reset_in_another_mode_waits_for_lanes_that_step():
    small = seed_hpc.AtariVectorEnv("breakout", 4, batch_size=2, num_threads=2)
    small.reset(seed=1)
    with pytest.raises(UserError, match="breakout has no mode 1"):
        small.reset(seed=1, options={"mode": 1})
    small.recv()
    observations, infos = small.reset(seed=1, options={"mode": 4})
    assert infos["env_id"].tolist() == [0, 1]
    np.testing.assert_array_equal(observations, make("breakout", 2, mode=4).reset(seed=1)[0])


def test_spaces_and_metadata_equal_those_of_ale_py():
    for options in ({}, {"grayscale": False, "stack_num": 2}, {"continuous": True}, {"batch_size": 2}):
        ours, theirs = make(num_envs=4, **options), AleVectorEnv("breakout", 4, **options)
        for name in ("single_observation_space", "observation_space", "single_action_space", "action_space"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.metadata == theirs.metadata
        assert isinstance(ours, gymnasium.vector.VectorEnv)


def test_defaults_equal_those_of_ale_py():
    import inspect

    theirs = inspect.signature(AleVectorEnv.__init__).parameters
    ours = inspect.signature(seed_hpc.AtariVectorEnv.__init__).parameters
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default, name
        assert ours[name].kind == parameter.kind, name


# ---- What is ours ------------------------------------------------------------------------------------------------


def play(env, actions, seed=7):
    """Observations and rewards of a run, with the reset's observation first."""
    trace = [env.reset(seed=seed)[0].copy()]
    for row in actions:
        trace += [array.copy() for array in env.step(row)[:4]]
    return trace


@pytest.mark.parametrize("options", [{"keep_pictures": True}, {"use_simd": False}])
@pytest.mark.parametrize("game", ["breakout", "qbert", "adventure"])
def test_shortcuts_change_nothing(game, options):
    usual, plain = make(game, episodic_life=True), make(game, episodic_life=True, **options)
    actions = actions_of(usual, 120)
    for a, b in zip(play(usual, actions), play(plain, actions), strict=True):
        np.testing.assert_array_equal(a, b)


def test_translation_changes_nothing(monkeypatch):
    monkeypatch.setenv("SEED_HPC_TRANSLATION", "0")
    interpreted = make("pong", 2)
    monkeypatch.delenv("SEED_HPC_TRANSLATION")
    usual = make("pong", 2)
    actions = actions_of(usual, 150)
    for a, b in zip(play(usual, actions), play(interpreted, actions), strict=True):
        np.testing.assert_array_equal(a, b)


def test_counter_lanes_depend_on_seed_and_number_only():
    whole = seed_hpc.make_vec("breakout", 4, num_threads=1, repeat_action_probability=0.25)
    part = seed_hpc.make_vec("breakout", 2, num_threads=1, repeat_action_probability=0.25, first_env_id=2)
    alone = seed_hpc.make_vec("breakout", 1, num_threads=1, repeat_action_probability=0.25)
    actions = actions_of(whole, 60)
    traces = play(whole, actions), play(part, actions[:, 2:])
    for a, b in zip(*traces, strict=True):
        np.testing.assert_array_equal(a[2:], b)
    assert (traces[0][0][0] != traces[0][0][1]).any()  # lanes differ
    # A seed of its own: the lane depends on nothing else.
    whole.reset(seed=np.array([5, 6, 5, 9]))
    alone.reset(seed=np.array([5]))
    for row in actions:
        row[2] = row[0]
        observations = whole.step(row)[0]
        np.testing.assert_array_equal(observations[0], observations[2])
        np.testing.assert_array_equal(observations[0], alone.step(row[:1])[0][0])


def test_arrays_stay_as_long_as_somebody_holds_them():
    env = make()
    env.reset(seed=0)
    held = [env.step(row)[0] for row in actions_of(env, 12)]
    assert len({array.ctypes.data for array in held}) == 12
    copies = [array.copy() for array in held]
    view = held[3][1, 2]
    expected = view.copy()
    del held[3]
    for row in actions_of(env, 12, seed=1):
        env.step(row)
    np.testing.assert_array_equal(view, expected)
    for array, kept in zip(held, copies[:3] + copies[4:], strict=True):
        np.testing.assert_array_equal(array, kept)


def test_torch_output_shares_memory_and_equals_numpy():
    arrays, tensors = make(), make(output="torch")
    assert isinstance(tensors.reset(seed=2)[0], torch.Tensor)
    arrays.reset(seed=2)
    for row in actions_of(arrays, 20):
        expected, found = arrays.step(row), tensors.step(torch.from_numpy(row))
        assert all(isinstance(array, torch.Tensor) for array in [*found[:4], *found[4].values()])
        assert_same_results(expected, (*(array.numpy() for array in found[:4]), found[4]))


def test_step_into_writes_into_a_rollout():
    usual, direct = make(), make()
    actions = actions_of(usual, 10)
    observations = torch.zeros(10, 3, 4, 84, 84, dtype=torch.uint8)
    rewards = torch.zeros(10, 3, dtype=torch.int32)
    flags = torch.zeros(2, 10, 3, dtype=torch.bool)
    usual.reset(seed=1)
    direct.reset(seed=1)
    for t, row in enumerate(actions):
        expected = usual.step(row)
        direct.step_into(row, observations[t], rewards[t], flags[0, t], flags[1, t])
        np.testing.assert_array_equal(observations[t].numpy(), expected[0])
        np.testing.assert_array_equal(rewards[t].numpy(), expected[1])
    with pytest.raises(UserError, match="observations must be a writable contiguous uint8 array"):
        direct.step_into(row, observations[0, :2], rewards[0], flags[0, 0], flags[1, 0])
    with pytest.raises(UserError, match="rewards must be a writable contiguous int32 array"):
        direct.step_into(row, observations[0], rewards[0].float(), flags[0, 0], flags[1, 0])


def test_small_batches_come_back_in_the_order_they_were_sent():
    whole = make(num_envs=6)
    actions = actions_of(whole, 30)
    trace = play(whole, actions)
    expected = [trace[0], *trace[1::4]]  # observations
    small = seed_hpc.AtariVectorEnv("breakout", 6, batch_size=2, num_threads=3)
    observations, infos = small.reset(seed=7)
    seen = dict.fromkeys(range(6), 0)
    order = []
    for _ in range(3 * 20):
        for row, lane in enumerate(infos["env_id"].tolist()):
            np.testing.assert_array_equal(observations[row], expected[seen[lane]][lane])
            seen[lane] += 1
            order.append(lane)
        lanes = infos["env_id"]
        observations, _, _, _, infos = small.step(np.array([actions[seen[lane] - 1][lane] for lane in lanes.tolist()]))
    assert order[:12] == [0, 1, 2, 3, 4, 5] * 2


def test_send_and_recv_are_the_halves_of_a_step():
    whole, halves = (
        make(autoreset_mode="SameStep", max_num_frames_per_episode=40),
        make(autoreset_mode="SameStep", max_num_frames_per_episode=40),
    )
    whole.reset(seed=1)
    halves.reset(seed=1)
    ended = 0
    for row in actions_of(whole, 25):
        expected = whole.step(row)
        halves.send(row)
        found = halves.recv()
        assert_same_results(expected, found)
        if "final_obs" in expected[4]:
            rows = expected[2] | expected[3]
            np.testing.assert_array_equal(expected[4]["final_obs"][rows], found[4]["final_obs"][rows])
            ended += 1
    assert ended == 2
    with pytest.raises(UserError, match="call send first"):
        halves.recv()
    halves.send(row)
    with pytest.raises(UserError, match="call recv first"):
        halves.send(row)
    with pytest.raises(UserError, match="call recv first"):
        halves.step(row)


def test_disabled_autoreset_waits_for_the_caller():
    env = make(autoreset_mode=AutoresetMode.DISABLED, max_num_frames_per_episode=40)
    env.reset(seed=1)
    for row in actions_of(env, 10):
        truncations = env.step(row)[3]
    assert truncations.all()
    with pytest.raises(UserError, match="episode of lane 0 has ended"):
        env.step(row)
    env.reset(options={"reset_mask": np.array([True, True, True])})
    env.step(row)


# ---- Snapshots ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", ["breakout", "qbert", "tetris", "miniature_golf"])
def test_restored_lanes_continue_identically(game):
    env, other = make(game, 2), make(game, 2)
    actions = actions_of(env, 80)
    env.reset(seed=3)
    for row in actions[:40]:
        env.step(row)
    state = env.clone_state()
    before = env.observe()
    expected = [env.step(row) for row in actions[40:]]
    other.restore_state(state)
    np.testing.assert_array_equal(other.observe()[0], before[0])
    for row, result in zip(actions[40:], expected, strict=True):
        assert_same_results(other.step(row), result)
    assert other.clone_state() == env.clone_state()


def test_a_snapshot_starts_any_lane_of_any_process(tmp_path):
    env = make("pong", 2)
    env.reset(seed=3)
    actions = actions_of(env, 30)[:, 0]
    for action in actions[:10]:
        env.step([action, action])
    (tmp_path / "lane").write_bytes(env.clone_lanes([1])[0])
    code = f"""
import numpy as np, seed_hpc
from pathlib import Path
env = seed_hpc.AtariVectorEnv("pong", 3, num_threads=1)
env.restore_lanes([Path({str(tmp_path / "lane")!r}).read_bytes()], [2])
for action in {actions[10:].tolist()}:
    observations = env.step([0, 0, action])[0]
np.save({str(tmp_path / "observation.npy")!r}, observations[2])
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    for action in actions[10:]:
        observations = env.step([0, action])[0]
    np.testing.assert_array_equal(np.load(tmp_path / "observation.npy"), observations[1])


def test_unusable_snapshots_are_refused_and_change_nothing():
    env = make("pong", 2)
    env.reset(seed=3)
    env.step([0, 1])
    lane, state = env.clone_lanes([0])[0], env.clone_state()
    damaged = bytearray(lane)
    damaged[-1] ^= 1
    other_version = bytearray(lane)
    other_version[8] ^= 64
    for bad, message in [
        (b"", "no snapshot"),
        (lane[:-1], "damaged"),
        (bytes(damaged), "damaged"),
        (bytes(other_version), "format"),
    ]:
        with pytest.raises(UserError, match=message):
            env.restore_lanes([bad])
    breakout = make("breakout", 1)
    breakout.reset(seed=0)
    foreign = breakout.clone_lanes()
    with pytest.raises(UserError, match="one of breakout, the pool runs pong"):
        env.restore_lanes(foreign)
    with pytest.raises(UserError, match="observations of"):
        make("pong", 1, stack_num=2).restore_lanes([lane])
    with pytest.raises(UserError, match="no state of a vector"):
        env.restore_state(lane)
    with pytest.raises(UserError, match="one of 2 lanes"):
        make("pong", 3).restore_state(state)
    with pytest.raises(UserError, match="lane is 2, it must be 0 to 1"):
        env.restore_lanes([lane], [2])
    assert env.clone_state() == state


@pytest.mark.parametrize("game", ["pong", "ball"])
def test_one_damaged_snapshot_leaves_all_lanes_as_they_are(game):
    env = seed_hpc.make_vec(game, 3, num_threads=1)
    env.reset(seed=3)
    earlier = env.clone_state()
    env.step(np.zeros_like(env.action_space.sample()))
    now = env.clone_state()
    damaged = earlier[:-1] + bytes([earlier[-1] ^ 1])
    with pytest.raises(UserError, match="damaged"):
        env.restore_state(damaged)
    with pytest.raises(UserError, match=r"lane is 3|there is no lane 3"):
        env.restore_lanes(env.clone_lanes([0, 0]), [1, 3])
    with pytest.raises(TypeError):
        env.restore_lanes([*env.clone_lanes([0]), "text"], [1, 2])
    assert env.clone_state() == now
    env.restore_state(bytearray(earlier))
    assert env.clone_state() == earlier
    env.restore_lanes([memoryview(lane) for lane in env.clone_lanes()])
    assert env.clone_state() == earlier


@pytest.mark.parametrize("game", ["pong", "ball"])
def test_a_refused_snapshot_is_no_reset(game):
    source, env = seed_hpc.make_vec(game, 2, num_threads=1), seed_hpc.make_vec(game, 2, num_threads=1)
    source.reset(seed=3)
    state = source.clone_state()
    actions = np.zeros_like(env.action_space.sample())
    with pytest.raises(UserError, match="damaged"):
        env.restore_state(state[:-1] + bytes([state[-1] ^ 1]))
    for call in (lambda: env.step(actions), lambda: env.step_into(actions, None, None, None, None)):
        with pytest.raises(UserError, match="have not been reset: call reset first"):
            call()
    env.restore_state(state)
    env.step(actions)


# ---- User errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0, it must be 1 to"),
        ({"num_envs": 2.5}, "num_envs is 2.5, it must be an integer"),
        ({"batch_size": 4}, "batch_size is 4, it must be 0 to 3"),
        ({"img_height": 0}, "img_height is 0"),
        ({"img_width": 5000}, "img_width is 5000"),
        ({"stack_num": 0}, "stack_num is 0"),
        ({"frameskip": 0}, "frameskip is 0"),
        ({"repeat_action_probability": 1.5}, "repeat_action_probability is 1.5, it must be 0 to 1"),
        ({"repeat_action_probability": float("nan")}, "repeat_action_probability is nan"),
        ({"continuous_action_threshold": 2.0}, "continuous_action_threshold is 2.0"),
        ({"max_num_frames_per_episode": -1}, "max_num_frames_per_episode is -1"),
        ({"num_threads": -2}, "num_threads is -2"),
        ({"autoreset_mode": "Disabled", "batch_size": 2}, "autoreset_mode='Disabled' needs batch_size=num_envs"),
        ({"autoreset_mode": "Sometimes"}, "must be one of NextStep, SameStep, Disabled"),
        ({"rng": "dice"}, "rng is 'dice'"),
        ({"output": "jax"}, "output is 'jax'"),
        ({"device": "tpu"}, "device is 'tpu'"),
        ({"device": torch.device("meta")}, "device is 'meta'"),
        ({"mode": 99}, "breakout has no mode 99"),
        ({"mode": 2**32}, "mode is 4294967296"),
        ({"mode": np.array([0, 0, -(2**32)])}, "mode is -4294967296"),
        ({"mode": np.array([0, 0, 2**63], np.uint64)}, "mode is 9223372036854775808"),
        ({"difficulty": 2**32 + 1}, "difficulty is 4294967297"),
        ({"mode": [0, 4]}, "mode must be one integer, or one for each of the 3 lanes"),
        ({"difficulty": 3}, "breakout has no difficulty 3"),
        ({"game": "brekout"}, "did you mean 'breakout'"),
        ({"rom_folder": "/nowhere"}, "the ROM folder /nowhere does not exist"),
    ],
)
def test_bad_arguments_are_one_clear_sentence(options, message):
    arguments = {"game": "breakout", "num_envs": 3, "num_threads": 1, **options}
    with pytest.raises(UserError, match=message):
        seed_hpc.AtariVectorEnv(**arguments)


def test_switches_are_true_or_false_whatever_their_number():
    usual, other = make(num_envs=1), make(num_envs=1, grayscale=2**32, maxpool=2**32, use_simd=2**32)
    assert other.single_observation_space == usual.single_observation_space
    actions = actions_of(usual, 20)
    for a, b in zip(play(usual, actions), play(other, actions), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("game", ["pong", "ball", "gymnasium:CartPole-v1"])
def test_a_device_of_torch_is_a_device(game):
    env = seed_hpc.make_vec(game, 1, device=torch.device("cpu"))
    env.reset(seed=0)
    env.close()


@pytest.mark.parametrize("game", ["pong", "ball"])
@pytest.mark.parametrize(("lane", "shown"), [(2**32, "4294967296"), (1.7, "1.7"), ("1", "'1'")])
def test_lanes_are_named_by_integers(game, lane, shown):
    env = seed_hpc.make_vec(game, 2, num_threads=1)
    env.reset(seed=0)
    state = env.clone_state()
    with pytest.raises(UserError, match=f"lane is {shown}, it must be an integer"):
        env.clone_lanes([lane])
    with pytest.raises(UserError, match=f"lane is {shown}, it must be an integer"):
        env.restore_lanes(env.clone_lanes([0]), [lane])
    assert env.clone_state() == state
    assert env.clone_lanes(np.array([1])) == env.clone_lanes([1])


def test_wrong_rom_images_are_refused(tmp_path, monkeypatch):
    image = (rom_folder() / "pong.bin").read_bytes()
    monkeypatch.setenv("SEED_HPC_ROMS", str(tmp_path))
    with pytest.raises(UserError, match=r"pong\.bin cannot be read: No such file"):
        make("pong")
    (tmp_path / "pong.bin").write_bytes(image[:-1])
    with pytest.raises(UserError, match=r"has 2047 bytes, the ROM image of pong has 2048"):
        make("pong")
    (tmp_path / "pong.bin").write_bytes(bytes([image[0] ^ 1]) + image[1:])
    with pytest.raises(UserError, match=rf"the ROM image of pong has {find_game('pong').md5}"):
        make("pong")
    (tmp_path / "pong.bin").write_bytes(image)
    make("pong").reset(seed=0)


def test_bad_actions_move_no_lane():
    env = make(num_envs=2)
    with pytest.raises(UserError, match="have not been reset"):
        env.step([0, 0])
    env.reset(seed=0)
    state = env.clone_state()
    for actions, message in [
        ([0, 4], "the action of row 1 is 4, it must be 0 to 3"),
        ([-1, 0], "the action of row 0 is -1"),
        ([2**32, 0], "the action of row 0 is 4294967296, it must be 0 to 3"),
        ([0.0, 1.0], "must be integers"),
        ([0], "shape"),
        ([[0, 0]], "shape"),
    ]:
        with pytest.raises(UserError, match=message):
            env.step(np.array(actions))
    assert env.clone_state() == state
    stick = make(num_envs=2, continuous=True)
    stick.reset(seed=0)
    with pytest.raises(UserError, match="not finite"):
        stick.step(np.array([[1, np.nan, 0], [0, 0, 0]], dtype=np.float32))


def test_bad_resets():
    env = make(num_envs=2)
    for arguments, message in [
        ({"options": {"reset_mask": np.array([True, False])}}, "first reset"),
        ({"seed": -1}, "first reset needs a seed for every lane"),
        ({"seed": [1, 2, 3]}, "one integer for each of the 2 lanes"),
        ({"seed": 2**31}, "must be 0 to 2147483647"),
        ({"seed": -7}, "must be 0 to 2147483647"),
        ({"seed": 1.5}, "must be None, an integer"),
    ]:
        with pytest.raises(UserError, match=message):
            env.reset(**arguments)
    env.reset()
    for mask in ([True, False], np.array([1, 0]), np.array([True])):
        with pytest.raises(UserError, match="reset_mask must be a boolean NumPy array"):
            env.reset(options={"reset_mask": mask})
    with pytest.raises(UserError, match="breakout has no mode 1"):
        env.reset(options={"mode": 1})
    with pytest.warns(UserWarning, match="reset ignores the option 'speed'"):
        env.reset(options={"speed": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(options={"mode": 4, "difficulty": [1, 0]})


def test_a_closed_environment_says_so():
    env = make()
    env.reset(seed=0)
    env.close()
    env.close()
    with pytest.raises(UserError, match="closed"):
        env.step([0, 0, 0])


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("game", ["pong", "ball"])
def test_a_vector_cannot_be_copied(game, duplicate):
    env = seed_hpc.make_vec(game, 1, num_threads=1)
    with pytest.raises(TypeError, match="cannot be copied or pickled: use clone_state"):
        duplicate(env)


def test_memory_of_a_lane():
    env = make(num_envs=8)
    env.reset(seed=0)
    for row in actions_of(env, 5):
        env.step(row)
    per_lane, _ = env.memory_bytes()
    assert 4 * 84 * 84 < per_lane <= 64 * 1024
