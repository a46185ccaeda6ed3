# SPDX-License-Identifier: Apache-2.0
"""External simulators and gymnasium environments in worker processes: results, ends of episodes, crashes."""

import logging
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
import yaml

import seed_hpc
from seed_hpc import cli
from seed_hpc.envs import external, translation
from seed_hpc.envs.external_worker import episode_seed
from seed_hpc.errors import MissingDependencyError, UserError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    """The shared library of counter_simulator.c."""
    library = tmp_path_factory.mktemp("simulator") / "libcounter.so"
    source = Path(__file__).with_name("counter_simulator.c")
    include = f"-I{ROOT / 'cuda' / 'include'}"
    command = [translation.compiler(), "-x", "c", "-shared", "-fPIC", include, "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return f"external:{library}"


def lengths(num_envs, seed, episode):
    return [3 + episode_seed(seed, lane, episode) % 5 for lane in range(num_envs)]


def test_a_plain_c_simulator_follows_next_step(counter):
    envs = seed_hpc.make_vec(counter, 3, lanes_per_process=2)
    assert envs.single_observation_space.shape == (2,)
    assert envs.single_action_space.n == 5
    observation, infos = envs.reset(seed=4)
    assert observation.tolist() == [[0, length] for length in lengths(3, 4, 0)]
    assert infos["env_id"].tolist() == [0, 1, 2]
    count, episode = np.zeros(3, int), np.zeros(3, int)
    ended = np.zeros(3, bool)
    for _ in range(20):
        observation, rewards, terminations, truncations, infos = envs.step(np.zeros(3, int))
        for lane in range(3):
            episode[lane] += ended[lane]
            count[lane] = 0 if ended[lane] else count[lane] + 1
            length = lengths(3, 4, int(episode[lane]))[lane]
            assert observation[lane].tolist() == [count[lane], length]
            assert rewards[lane] == count[lane]
            assert infos["episode_steps"][lane] == count[lane]
            ended[lane] = count[lane] >= length
            assert terminations[lane] == ended[lane]
        assert not truncations.any()
        assert not infos["crashed"].any()
    envs.close()


def test_same_step_and_disabled(counter):
    envs = seed_hpc.make_vec(counter, 2, lanes_per_process=2, autoreset_mode="SameStep")
    envs.reset(seed=1)
    for _ in range(10):
        observation, rewards, terminations, _, infos = envs.step(np.ones(2, int))
        assert ("final_obs" in infos) == terminations.any()
        for lane in np.flatnonzero(terminations):
            assert infos["final_obs"][lane, 0] >= infos["final_obs"][lane, 1]
            assert observation[lane, 0] == 0
            assert rewards[lane] >= 3
    envs.close()
    envs = seed_hpc.make_vec(counter, 1, autoreset_mode="Disabled")
    envs.reset(seed=1)
    while not envs.step([1])[2].any():
        pass
    with pytest.raises(UserError, match="lane 0 has ended"):
        envs.step([1])
    assert envs.reset(options={"reset_mask": np.array([True])})[0][0, 0] == 0
    envs.close()


@pytest.mark.parametrize(("action", "fault"), [(2, "SIGSEGV"), (3, "returned 42"), (4, "no answer in 2 s")])
def test_a_failure_ends_the_episode_of_its_lane_only(counter, action, fault, caplog):
    envs = seed_hpc.make_vec(counter, 3, timeout_s=2.0 if action == 4 else 60.0)
    envs.reset(seed=0)
    envs.step(np.zeros(3, int))
    with caplog.at_level(logging.WARNING):
        observation, rewards, terminations, truncations, infos = envs.step(np.array([0, action, 0]))
    assert fault in caplog.text
    assert "lane [1]" in caplog.text
    assert infos["crashed"].tolist() == [False, True, False]
    assert truncations.tolist() == [False, True, False]
    assert not terminations.any()
    assert observation[:, 0].tolist() == [2, 1, 2]
    assert rewards.tolist() == [2, 0, 2]
    observation, _, _, truncations, infos = envs.step(np.zeros(3, int))
    assert not truncations.any()
    assert not infos["crashed"].any()
    # Lane 1 has begun its next episode; the others went on, or ended by their own rules.
    assert observation[1].tolist() == [0, lengths(3, 0, 1)[1]]
    assert observation[[0, 2], 0].tolist() == [3, 3]
    envs.close()


def interrupt(envs, lane, monkeypatch, actions):
    """Presses Ctrl-C while a step waits for the worker of a lane."""

    def press(timeout):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(envs._workers[lane].process.connection, "poll", press)
        with pytest.raises(KeyboardInterrupt):
            envs.step(actions)


def test_a_step_that_is_interrupted_has_happened(counter, monkeypatch):
    envs = seed_hpc.make_vec(counter, 3)
    envs.reset(seed=0)
    interrupt(envs, 1, monkeypatch, [0, 0, 0])
    assert envs.step([0, 0, 0])[0][:, 0].tolist() == [2, 2, 2]
    interrupt(envs, 1, monkeypatch, [0, 0, 0])
    observation, infos = envs.reset(seed=4)
    assert observation.tolist() == [[0, length] for length in lengths(3, 4, 0)]
    assert infos["episode_steps"].tolist() == [0, 0, 0]
    interrupt(envs, 0, monkeypatch, [0, 0, 0])
    snapshots = envs.clone_lanes()
    envs.restore_lanes(snapshots)
    observation, _, _, truncations, _ = envs.step([0, 0, 0])
    assert observation[:, 0].tolist() == [1, 1, 1]
    assert truncations.all()
    envs.close()


def test_a_worker_that_hangs_in_an_interrupted_step_is_started_anew(counter, monkeypatch, caplog):
    envs = seed_hpc.make_vec(counter, 2, timeout_s=1.0)
    envs.reset(seed=0)
    interrupt(envs, 1, monkeypatch, [0, 4])
    with caplog.at_level(logging.WARNING):
        observation, _ = envs.reset(seed=4)
    assert "lane [1]" in caplog.text
    assert observation.tolist() == [[0, length] for length in lengths(2, 4, 0)]
    assert envs.step([0, 0])[0][:, 0].tolist() == [1, 1]
    envs.close()


def test_what_always_fails_is_an_error(counter, monkeypatch):
    envs = seed_hpc.make_vec(counter, 1)
    envs.reset(seed=0)
    monkeypatch.setenv("COUNTER_CRASHES_IN_RESET", "1")  # counts for processes that are started from now on
    for _ in range(3):
        assert envs.step([2])[4]["crashed"].all()
    with pytest.raises(UserError, match="again and again"):
        envs.step([2])
    with pytest.raises(UserError, match="is closed"):
        envs.step([0])
    with pytest.raises(UserError, match="cannot be reset in lane 0: the process was ended by SIGSEGV"):
        seed_hpc.make_vec(counter, 1).reset(seed=0)
    monkeypatch.delenv("COUNTER_CRASHES_IN_RESET")
    monkeypatch.setenv("COUNTER_FAILS", "1")
    with pytest.raises(UserError, match="cannot be made: RuntimeError: seed_simulator_create returned NULL"):
        seed_hpc.make_vec(counter, 1)


def test_simulators_are_destroyed(counter, tmp_path, monkeypatch):
    ends = tmp_path / "ends"
    monkeypatch.setenv("COUNTER_LOGS_ITS_END", str(ends))
    envs = seed_hpc.make_vec(counter, 3, lanes_per_process=2)
    assert ends.read_text() == "x"  # the one that told the shape
    envs.reset(seed=0)
    envs.close()
    assert ends.read_text() == "xxxx"


CLOSING = """
import os
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Closing(CartPoleEnv):
    def close(self):
        with open(os.environ["CLOSED"], "a") as file:
            file.write("x")
        raise RuntimeError("it is stuck")


gymnasium.register("Closing-v0", Closing)
"""


def test_gymnasium_environments_are_closed(tmp_path, monkeypatch, capfd):
    """All of them, although each fails in it; and nobody is bothered with that."""
    (tmp_path / "closing.py").write_text(CLOSING)
    monkeypatch.syspath_prepend(tmp_path)
    closed = tmp_path / "closed"
    monkeypatch.setenv("CLOSED", str(closed))
    envs = seed_hpc.make_vec("gymnasium:closing:Closing-v0", 2, lanes_per_process=2)
    envs.reset(seed=0)
    envs.close()
    assert closed.read_text() == "xxx"
    assert capfd.readouterr().err == ""


def test_wrong_usage(counter, tmp_path):
    text = tmp_path / "text.so"
    text.write_text("x")
    for name, message in (
        ("external:/no/such.so", "does not exist"),
        (f"external:{text}", "cannot be made: OSError"),
        ("gymnasium:NoSuchGame-v0", "cannot be made"),
        ("gymnasium:FrozenLake-v1", "observations are Discrete"),
    ):
        with pytest.raises(UserError, match=message):
            seed_hpc.make_vec(name, 1)
    with pytest.raises(UserError, match="num_envs is 0"):
        seed_hpc.make_vec(counter, 0)
    with pytest.raises(UserError, match="rng='ale' belongs to Atari games"):
        seed_hpc.make_vec(counter, 1, rng="ale")
    envs = seed_hpc.make_vec(counter, 2, lanes_per_process=2)
    with pytest.raises(UserError, match="call reset first"):
        envs.step([0, 0])
    envs.reset(seed=0)
    for actions, message in (([0], "shape"), ([0, 5], "outside of 0 to 4"), ([0.0, 1.0], "must be integers")):
        with pytest.raises(UserError, match=message):
            envs.step(actions)
    envs.close()


def test_gymnasium_environments_give_what_gymnasium_gives():
    envs = seed_hpc.make_vec("gymnasium:CartPole-v1", 2, lanes_per_process=2)
    observation, _ = envs.reset(seed=3)
    twins = [gymnasium.make("CartPole-v1") for _ in range(2)]
    expected = [twin.reset(seed=episode_seed(3, lane, 0) % 2**31)[0] for lane, twin in enumerate(twins)]
    assert np.array_equal(observation, expected)
    for step in range(8):
        action = [step % 2, 1]
        observation, rewards, terminations, *_ = envs.step(action)
        results = [twin.step(chosen) for twin, chosen in zip(twins, action, strict=True)]
        assert np.array_equal(observation, [result[0] for result in results])
        assert rewards.tolist() == [1.0, 1.0]
        assert terminations.tolist() == [result[2] for result in results]
    envs.close()


def test_a_script_needs_no_main_guard(tmp_path):
    """The workers do not run the script again."""
    script = tmp_path / "plain.py"
    script.write_text(
        "import seed_hpc\n"
        "envs = seed_hpc.make_vec('gymnasium:CartPole-v1', 2)\n"
        "print(envs.reset(seed=0)[0].shape)\n"  # ends without close()
    )
    result = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr, result.returncode) == ("(2, 4)\n", "", 0)


def test_continuous_actions_are_scaled_to_the_bounds():
    """Pendulum takes torques of -2 to 2: half of the range is a torque of 1."""
    envs = seed_hpc.make_vec("gymnasium:Pendulum-v1", 1)
    envs.reset(seed=0)
    twin = gymnasium.make("Pendulum-v1")
    twin.reset(seed=episode_seed(0, 0, 0) % 2**31)
    observation, rewards, *_ = envs.step([[0.5]])
    expected, reward, *_ = twin.step(np.array([1.0], np.float32))
    assert np.array_equal(observation[0], expected.astype(np.float32))
    assert rewards[0] == pytest.approx(reward)
    envs.close()


def test_snapshots_cut_off_the_episode_that_cannot_be_copied(counter):
    envs, other = (seed_hpc.make_vec(counter, 2, lanes_per_process=2) for _ in range(2))
    envs.reset(seed=2)
    before = envs.step([0, 0])[0]
    other.restore_lanes(envs.clone_lanes())
    observation, rewards, _, truncations, _ = other.step([0, 0])
    assert np.array_equal(observation, before)
    assert truncations.all()
    assert not rewards.any()
    observation, *_ = other.step([0, 0])
    assert observation.tolist() == [[0, length] for length in lengths(2, 2, 1)]
    with pytest.raises(UserError, match="no snapshot"):
        other.restore_lanes([b"x"])
    other.restore_lanes(envs.clone_lanes([1]), [0])  # takes the number of lane 1 along
    other.step([0, 0])
    assert other.step([0, 0])[0][0].tolist() == [0, lengths(2, 2, 1)[1]]
    envs.close()
    other.close()


def test_snapshots_with_same_step(counter):
    """The step that cuts the episodes off is the first one of the next; lane 0 only waits for it."""
    envs = seed_hpc.make_vec(counter, 3, lanes_per_process=2, autoreset_mode="SameStep")
    envs.reset(seed=2)
    snapshots = envs.clone_lanes([1, 2])
    before = envs.step([0, 0, 0])[0]
    envs.restore_lanes(snapshots, [1, 2])
    observation, rewards, _, truncations, infos = envs.step([0, 0, 0])
    assert truncations.tolist() == [False, True, True]
    assert not rewards.any()
    assert infos["final_obs"][1:].tolist() == [[0, length] for length in lengths(3, 2, 0)[1:]]
    assert observation.tolist() == [before[0].tolist(), *([0, length] for length in lengths(3, 2, 1)[1:])]
    observation, _, _, truncations, _ = envs.step([0, 0, 0])
    assert observation[:, 0].tolist() == [2, 1, 1]
    assert not truncations.any()
    envs.close()


def test_a_seed_for_each_lane_makes_its_number_irrelevant(counter):
    envs = seed_hpc.make_vec(counter, 4, lanes_per_process=4, first_env_id=10)
    wanted = [3 + episode_seed(seed, 0, 0) % 5 for seed in (4, 7, 4, 9)]
    assert envs.reset(seed=[4, 7, 4, 9])[0][:, 1].tolist() == wanted
    mask = np.array([False, True, False, True])
    again = envs.reset(seed=5, options={"reset_mask": mask})[0]  # one seed for both: the numbers count
    assert again[mask, 1].tolist() == [3 + episode_seed(5, number, 0) % 5 for number in (11, 13)]
    following = envs.reset()[0]
    keys = ((4, 0), (5, 11), (4, 0), (5, 13))
    assert following[:, 1].tolist() == [3 + episode_seed(*key, 1) % 5 for key in keys]
    envs.close()


# ---- Results on a device: the CPU takes its place ------------------------------------------------------------------


@pytest.fixture
def host_as_device(monkeypatch):
    monkeypatch.setattr(external, "find_device", lambda name, library: torch.device("cpu"))


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_device_gets_what_the_host_gets(counter, host_as_device, mode):
    options = {"lanes_per_process": 2, "autoreset_mode": mode}
    found, wanted = seed_hpc.make_vec(counter, 5, device="cuda", **options), seed_hpc.make_vec(counter, 5, **options)
    assert torch.equal(found.reset(seed=3)[0], torch.from_numpy(wanted.reset(seed=3)[0]))
    crashed = torch.zeros(5, dtype=torch.bool)
    for step in range(12):
        actions = np.array([0, 1, 0, step == 4 and 2, 1], np.int64)  # the process of lanes 2 and 3 crashes once
        *results, infos = found.step(torch.from_numpy(actions))
        *expected, expected_infos = wanted.step(actions)
        for result, array in zip(results, expected, strict=True):
            assert torch.equal(result, torch.from_numpy(array))
        assert infos.keys() == expected_infos.keys()
        for key, array in expected_infos.items():
            assert torch.equal(infos[key], torch.from_numpy(array)), key
        crashed |= infos["crashed"]
    assert crashed.tolist() == [False, False, True, True, False]
    found.close()
    wanted.close()


def targets(num_envs):
    flags = (torch.empty(num_envs, dtype=torch.bool) for _ in range(2))
    return [torch.empty(num_envs, 2), torch.empty(num_envs), *flags]


def test_a_device_is_stepped_into(counter, host_as_device):
    envs, twin = (seed_hpc.make_vec(counter, 3, device="cuda") for _ in range(2))
    envs.reset(seed=1)
    twin.restore_lanes(envs.clone_lanes())
    results = targets(3)
    assert envs.step_into(torch.zeros(3, dtype=torch.int64), *results) is None
    expected = np.array(lengths(3, 1, 0))
    assert results[0].tolist() == [[1, length] for length in expected]
    assert results[1].tolist() == [1, 1, 1]
    twin.step_into(torch.zeros(3, dtype=torch.int64), *results)  # its interrupted episodes are cut off
    assert results[0].tolist() == [[0, length] for length in expected]
    assert results[3].all()
    with pytest.raises(UserError, match=r"rewards must be a contiguous torch.float32 tensor of shape \(3,\) on cpu"):
        envs.step_into([0, 0, 0], results[0], results[1].double(), *results[2:])
    envs.close()
    twin.close()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_always_fails_is_an_error_of_step_into_as_well(counter, host_as_device, device, monkeypatch):
    envs = seed_hpc.make_vec(counter, 1, device=device)
    envs.reset(seed=0)
    monkeypatch.setenv("COUNTER_CRASHES_IN_RESET", "1")  # counts for processes that are started from now on
    results = targets(1)
    for _ in range(3):
        envs.step_into([2], *results)
    with pytest.raises(UserError, match="again and again"):
        envs.step_into([2], *results)
    with pytest.raises(UserError, match="is closed"):
        envs.step_into([0], *results)


def test_without_a_gpu(counter, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingDependencyError, match=r"needs an NVIDIA GPU that PyTorch can use: .* device='cpu'$"):
        seed_hpc.make_vec(counter, 1, device="cuda")


@pytest.mark.slow
def test_an_agent_trains_on_a_gymnasium_environment_and_resumes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    experiment = {
        "agent": {"name": "ppo", "minibatches": 2},
        "env": {"game": "gymnasium:CartPole-v1", "num_envs": 2, "frameskip": 1, "reward_clipping": False},
        "model": {"encoder": "mlp", "hidden_size": 16},
        "training": {"total_frames": 128, "unroll_length": 16, "num_threads": 1, "device": "cpu", "tensorboard": False},
    }
    Path("cart.yaml").write_text(yaml.safe_dump(experiment))
    assert cli.main(["train", "--config", "cart.yaml", "--run-id", "a"]) == 0
    assert cli.main(["train", "--resume", "results/cart/a", "training.total_frames=192"]) == 0
