# SPDX-License-Identifier: Apache-2.0
"""Native environments on a CUDA device, with the kernels compiled for the host: equal to the CPU's bit for bit."""

import numpy as np
import pytest
import torch
from envs.test_cuda_vector import HostDevice, library  # noqa: F401  (a fixture)

import seed_hpc
from seed_hpc import _native, cli
from seed_hpc.envs import cuda_native_vector, environment_build, translation
from seed_hpc.envs.cuda_native_vector import CudaNativeVectorEnv
from seed_hpc.envs.environment_table import library_environments
from seed_hpc.errors import MissingDependencyError, UserError

LANES = 150  # more than a block


@pytest.fixture
def make(library, monkeypatch):  # noqa: F811
    """Makes an environment on the stand-in for a device and one on the CPU."""
    monkeypatch.setattr(HostDevice, "library", _native.load_path(library))
    monkeypatch.setattr(cuda_native_vector, "CudaDevice", HostDevice)
    made = []

    def pair(name="ball", num_envs=LANES, **options):
        made.append(seed_hpc.make_vec(name, num_envs, device="cuda", **options))
        made.append(seed_hpc.make_vec(name, num_envs, num_threads=1, **options))
        assert type(made[-2]) is CudaNativeVectorEnv
        return made[-2:]

    yield pair
    for envs in made:
        envs.close()


def assert_equal(found, wanted):
    """Compares what reset or step returned, bit for bit; of final observations only the rows that are defined."""
    *found, found_infos = found
    *wanted, wanted_infos = wanted
    for a, b in zip(found, wanted, strict=True):
        assert isinstance(a, torch.Tensor)
        assert a.numpy().dtype == b.dtype
        assert a.numpy().tobytes() == b.tobytes()
    for key in ("env_id", "episode_steps"):
        np.testing.assert_array_equal(found_infos[key].numpy(), wanted_infos[key])
    if "final_obs" in wanted_infos:
        ended = wanted[2] | wanted[3]
        assert found_infos["final_obs"].numpy()[ended].tobytes() == wanted_infos["final_obs"][ended].tobytes()


def actions_for(envs, random):
    if envs.continuous:
        return random.uniform(-1.5, 1.5, envs.action_space.shape).astype(np.float32)
    return random.integers(envs.single_action_space.n, size=envs.num_envs)


@pytest.mark.parametrize("autoreset_mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("name", sorted(library_environments()))
def test_equals_the_cpu(make, name, autoreset_mode):
    device, cpu = make(name, autoreset_mode=autoreset_mode, max_episode_steps=20)
    assert device.single_observation_space == cpu.single_observation_space
    assert device.single_action_space == cpu.single_action_space
    assert_equal(device.reset(seed=5), cpu.reset(seed=5))
    random, num_ended = np.random.default_rng(0), 0
    for step in range(50):
        actions = actions_for(cpu, random)
        wanted = cpu.step(actions)
        assert_equal(device.step(torch.from_numpy(actions) if step % 2 else actions), wanted)
        num_ended += int((wanted[2] | wanted[3]).sum())
    assert num_ended > LANES
    mask = np.arange(LANES) % 3 == 0
    seeds = np.arange(mask.sum())
    assert_equal(*(envs.reset(seed=seeds, options={"reset_mask": mask}) for envs in (device, cpu)))
    assert_equal(*(envs.reset() for envs in (device, cpu)))
    assert device.observe().numpy().tobytes() == cpu.observe().tobytes()


def test_infos_are_the_callers(make):
    device, _ = make(num_envs=2)
    device.reset(seed=0)[1]["env_id"][:] = 7
    assert device.reset(seed=0)[1]["env_id"].tolist() == [0, 1]


def test_the_reference_policy(make):
    device, cpu = make("order_book", 8)
    for envs in (device, cpu):
        envs.reset(seed=2)
    for _ in range(10):
        wanted = cpu.reference_actions()
        found = device.reference_actions()
        assert found.numpy().tobytes() == wanted.tobytes()
        assert_equal(device.step(found), cpu.step(wanted))
    device, _ = make("quadruped", 2)
    device.reset(seed=0)
    with pytest.raises(UserError, match="no reference policy"):
        device.reference_actions()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"horizon": 0}, 3),
        ({"messages": -200000, "data": np.zeros(50 * 20, np.uint8)}, 3),
        ({"messages": 200000, "data": np.zeros(50 * 20, np.uint8)}, 2),
    ],
)
def test_lanes_that_could_not_be_reset_report_it_again(make, options, error):
    """The device is not asked before a step: its kernels must do no harm."""
    device, _ = make("order_book", 2, **options)
    for call in (
        lambda: device.reset(seed=0),
        lambda: (device.reference_actions(), device.step(np.zeros(2, np.int64)), device.synchronize()),
    ):
        with pytest.raises(UserError, match=f"reported error {error}"):
            call()


def test_step_into_and_snapshots_of_both(make):
    device, cpu = make(num_envs=5)
    for envs in (device, cpu):
        envs.reset(seed=1)
    actions = np.full((5, 2), 0.25, np.float32)
    observations, rewards = torch.empty(5, 8), torch.empty(5)
    flags = torch.empty(2, 5, dtype=torch.bool)
    device.step_into(actions, observations, rewards, flags[0], flags[1])
    wanted = cpu.step(actions)
    assert observations.numpy().tobytes() == wanted[0].tobytes()
    assert rewards.numpy().tobytes() == wanted[1].tobytes()
    assert device.clone_state() == cpu.clone_state()
    wanted = cpu.step(actions)
    device.step(-actions)
    device.restore_lanes(cpu.clone_lanes([3]), [2])
    assert device.clone_lanes([2]) == cpu.clone_lanes([3])
    with pytest.raises(UserError, match="damaged"):
        device.restore_lanes([cpu.clone_lanes([0])[0][:-1]])
    with pytest.raises(UserError, match=r"rewards must be a contiguous torch.float32 tensor of shape \(5,\)"):
        device.step_into(actions, observations, rewards.double(), flags[0], flags[1])


def test_what_kernels_cannot_refuse_is_told_afterwards(make):
    device, cpu = make(num_envs=3)
    for envs in (device, cpu):
        envs.reset(seed=0)
    actions = np.array([[0.5, 0.5], [np.inf, 0.1], [0.0, 1.0]], np.float32)
    found = device.step(actions)
    assert_equal(found, cpu.step(np.where(np.isfinite(actions), actions, 0)))
    with pytest.raises(UserError, match="action of row 1 is not finite; 0 was played"):
        device.synchronize()
    device.synchronize()
    device, _ = make("order_book", 2)
    device.reset(seed=0)
    device.step(np.array([0, 99]))
    with pytest.raises(UserError, match="action of row 1 is 99, it must be 0 to"):
        device.reset(seed=0)
    with pytest.raises(UserError, match="must be integers"):
        device.step(np.zeros(2))
    with pytest.raises(UserError, match="have the shape"):
        device.step(np.zeros(3, np.int64))
    device, _ = make(num_envs=2, autoreset_mode="Disabled", max_episode_steps=1)
    device.reset(seed=0)
    for _ in range(2):
        device.step(np.zeros((2, 2), np.float32))
    with pytest.raises(UserError, match="episode of lane 0 has ended"):
        device.synchronize()


# ---- An environment of one's own -------------------------------------------------------------------------------------


@pytest.fixture
def header(tmp_path, monkeypatch):
    """The template, with an error that it reports in its third step."""
    monkeypatch.setenv("SEED_HPC_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["env", "new", "my_env"]) == 0
    return tmp_path / "my_env" / "my_env.h"


def build_for_host(header, architectures):
    """Builds what nvcc would, for the stand-in."""
    flags = [*environment_build._CPU_FLAGS, "-w", "-DSEED_HOST_LAUNCHER", environment_build._DEFINE]
    return environment_build._build(header, "cuda", [translation.compiler(), *flags], {"architectures": architectures})


def test_your_own_environment(make, header):
    assert cli.main(["kernels", "build", "--env", str(header)]) == 0
    with pytest.raises(
        MissingDependencyError, match=r"'my_env' is not built for GPUs: `.*my_env.h .*--arch 90` builds it"
    ):
        make("my_env")
    build_for_host(header, ["80"])
    with pytest.raises(MissingDependencyError, match=r"'my_env' is built for sm_80 only: `.*--arch 90` builds it"):
        make("my_env")
    built = build_for_host(header, ["80", "90"])
    device, cpu = make("my_env")
    assert_equal(device.reset(seed=3), cpu.reset(seed=3))
    random = np.random.default_rng(1)
    for _ in range(30):
        actions = actions_for(cpu, random)
        assert_equal(device.step(actions), cpu.step(actions))
    with pytest.raises(UserError, match="was built for cuda, this pool runs on CPUs"):
        seed_hpc.make_vec(str(built), 2)
    with pytest.raises(UserError, match="was built for cpu, this pool runs on CUDA devices"):
        seed_hpc.make_vec(str(environment_build.library_path("my_env")), 2, device="cuda")
    with pytest.raises(UserError, match="there is no environment 'my_envy'"):
        cuda_native_vector.find_on_device("my_envy", HostDevice("cuda"))


def test_what_an_environment_reports(make, header):
    text = header.read_text(encoding="utf-8")
    start = text.index("{", text.index(" step(")) + 1
    failing = "\n    if (context.random.uniform() < 2.0f) context.error = 7;"
    header.write_text(text[:start] + failing + text[start:], encoding="utf-8")
    build_for_host(header, ["90"])
    device = seed_hpc.make_vec("my_env", 4, device="cuda")
    device.reset(seed=9)
    device.step(actions_for(device, np.random.default_rng(0)))
    with pytest.raises(
        UserError, match=r"'my_env' reported error 7 in lane \d \(seed 9, number \d, episode 0, step 1\)"
    ):
        device.synchronize()
    device.close()


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingDependencyError, match=r"needs an NVIDIA GPU .* and libseed_cuda.so: .*'cpu'$"):
        seed_hpc.make_vec("ball", 2, device="cuda")
