# SPDX-License-Identifier: Apache-2.0
"""The vector of environments on a CUDA device, with the pool's kernels compiled for the host: equal to the CPU's."""

import contextlib
import ctypes
import shutil

import numpy as np
import pytest
import torch
from pool.kernels_on_host import compile_for_host

import seed_hpc
from seed_hpc import _native
from seed_hpc.envs import cuda_device, cuda_vector
from seed_hpc.envs.cuda_device import CudaDevice
from seed_hpc.envs.cuda_vector import CudaAtariVectorEnv
from seed_hpc.errors import MissingDependencyError, UserError


class HostDevice(CudaDevice):
    """Stands in for a device: its memory is the host's, and there is one stream."""

    library = None

    def __init__(self, name):
        self.torch_device, self.number, self.architecture = torch.device("cpu"), 0, "90"

    def stream(self):
        return 0

    def use(self):
        return contextlib.nullcontext()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("needs a C++ compiler")
    return compile_for_host(tmp_path_factory.mktemp("cuda"), None, sanitize=False)


@pytest.fixture
def make(library, monkeypatch):
    """Makes an environment on the stand-in and one on the CPU."""
    monkeypatch.setattr(HostDevice, "library", _native.load_path(library))
    monkeypatch.setattr(cuda_vector, "CudaDevice", HostDevice)
    made = []

    def pair(game="breakout", num_envs=3, **options):
        made.append(seed_hpc.make_vec(game, num_envs, device="cuda", **options))
        made.append(seed_hpc.make_vec(game, num_envs, num_threads=1, **options))
        assert type(made[-2]) is CudaAtariVectorEnv
        return made[-2:]

    yield pair
    for envs in made:
        envs.close()


def assert_equal(found, wanted):
    """Compares what reset or step returned; of final observations only the rows that are defined."""
    *found, found_infos = found
    *wanted, wanted_infos = wanted
    for a, b in zip(found, wanted, strict=True):
        assert isinstance(a, torch.Tensor)
        assert a.numpy().dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b)
    for key in ("env_id", "lives", "frame_number", "episode_frame_number"):
        np.testing.assert_array_equal(found_infos[key].numpy(), wanted_infos[key])
    if "final_obs" in wanted_infos:
        ended = wanted[2] | wanted[3]
        np.testing.assert_array_equal(found_infos["final_obs"].numpy()[ended], wanted_infos["final_obs"][ended])


@pytest.mark.parametrize(
    "options",
    [
        {"repeat_action_probability": 0.25, "max_num_frames_per_episode": 40},
        {"autoreset_mode": "SameStep", "rng": "ale", "grayscale": False, "max_num_frames_per_episode": 40},
    ],
)
def test_equals_the_cpu(make, options):
    device, cpu = make(**options)
    assert device.single_observation_space == cpu.single_observation_space
    assert device.single_action_space == cpu.single_action_space
    assert_equal(device.reset(seed=5), cpu.reset(seed=5))
    random = np.random.default_rng(0)
    for step in range(24):
        actions = random.integers(cpu.single_action_space.n, size=3)
        given = torch.from_numpy(actions).to(torch.int32) if step % 2 else actions
        assert_equal(device.step(given), cpu.step(actions))
    mask = np.array([True, False, True])
    assert_equal(*(envs.reset(seed=[1, 2], options={"reset_mask": mask}) for envs in (device, cpu)))
    assert_equal(device.observe(), cpu.observe())
    np.testing.assert_array_equal(device.ram(), cpu.ram())


def test_a_masked_reset_leaves_the_modes_of_other_lanes(make):
    device, cpu = make("space_invaders", mode=[0, 4, 0])
    mask = np.array([True, False, False])
    for options in ({}, {"options": {"reset_mask": mask, "mode": 15}}, {"options": {"reset_mask": ~mask}}):
        assert_equal(*(envs.reset(seed=5, **options) for envs in (device, cpu)))
        np.testing.assert_array_equal(device.ram(), cpu.ram())
    device_of_its_own, _ = make("space_invaders", mode=[15, 4, 0])
    device_of_its_own.reset(seed=5)
    np.testing.assert_array_equal(device.ram(), device_of_its_own.ram())


def test_step_into_and_snapshots(make):
    device, cpu = make()
    for envs in (device, cpu):
        envs.reset(seed=1)
    observations = torch.empty(device.observation_space.shape, dtype=torch.uint8)
    rewards = torch.empty(3, dtype=torch.int32)
    flags = torch.empty(2, 3, dtype=torch.bool)
    actions = np.array([1, 2, 3])
    device.step_into(actions, observations, rewards, flags[0], flags[1])
    wanted = cpu.step(actions)
    np.testing.assert_array_equal(observations.numpy(), wanted[0])
    np.testing.assert_array_equal(rewards.numpy(), wanted[1])
    state = device.clone_state()
    first = device.step(actions)
    device.restore_state(state)
    again = device.step(actions)
    assert torch.equal(first[0], again[0])
    assert_equal(again, cpu.step(actions))
    with pytest.raises(UserError, match="damaged"):
        device.restore_lanes([device.clone_lanes([0])[0][:-1]])
    with pytest.raises(UserError, match="no snapshot"):
        device.restore_lanes(cpu.clone_lanes([0]))
    with pytest.raises(UserError, match=r"rewards must be a contiguous torch.int32 tensor of shape \(3,\)"):
        device.step_into(actions, observations, rewards.double(), flags[0], flags[1])


def test_what_a_device_does_not_do(make):
    device, _ = make()
    device.reset(seed=0)
    device.step(np.array([0, 99, 0]))  # kernels cannot refuse it
    with pytest.raises(UserError, match="action of lane 1 was 99"):
        device.synchronize()
    device.synchronize()
    with pytest.raises(UserError, match="must be integers"):
        device.step(np.zeros(3))
    with pytest.raises(UserError, match="no send"):
        device.send(np.zeros(3, dtype=np.int64))
    with pytest.raises(UserError, match="batch_size is 2"):
        make(num_envs=3, batch_size=2)
    with pytest.raises(UserError, match="continuous actions"):
        make(continuous=True)


# ---- What is missing -------------------------------------------------------------------------------------------------


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    sentence = r"needs an NVIDIA GPU .* and libseed_cuda.so: torch \S+ is a build without CUDA .*`make kernels`.*'cpu'$"
    with pytest.raises(MissingDependencyError, match=sentence):
        seed_hpc.make_vec("pong", device="cuda")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(MissingDependencyError, match="finds no device"):
        seed_hpc.AtariVectorEnv("pong", 2, device="cuda:1")


@pytest.fixture
def one_gpu(monkeypatch):
    """PyTorch says that there is a GPU of architecture 90."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))


def test_without_a_library(one_gpu, monkeypatch, tmp_path):
    monkeypatch.setenv("SEED_HPC_LIBRARY_DIR", str(tmp_path))
    monkeypatch.setattr(cuda_device, "_CHECKOUT_BUILD", tmp_path)
    with pytest.raises(MissingDependencyError, match=r"sm_90\) was not found in .*`make kernels ARCHS=90`.*'cpu'$"):
        seed_hpc.make_vec("pong", device="cuda")


def test_with_a_library_for_another_gpu(one_gpu, monkeypatch, tmp_path):
    (tmp_path / "libseed_cuda.so").touch()
    (tmp_path / "kernels.json").write_text('{"arch": "80"}')
    monkeypatch.setenv("SEED_HPC_LIBRARY_DIR", str(tmp_path))
    monkeypatch.setattr(cuda_device, "_CHECKOUT_BUILD", tmp_path / "none")
    with pytest.raises(
        MissingDependencyError, match=r"for sm_80, this GPU is sm_90: .*`make kernels ARCHS=90`.*'cpu'$"
    ):
        seed_hpc.make_vec("pong", device="cuda")


def test_takes_the_library_of_the_architecture(one_gpu, library, monkeypatch, tmp_path):
    (tmp_path / "sm_90").mkdir()
    shutil.copy(library, tmp_path / "sm_90")
    (tmp_path / "libseed_cuda.so").write_text("another architecture")
    monkeypatch.setenv("SEED_HPC_LIBRARY_DIR", str(tmp_path))
    device = cuda_device.CudaDevice("cuda")
    assert device.torch_device == torch.device("cuda", 0)
    assert isinstance(device.library, ctypes.CDLL)
    assert device.library.seed_backend_name() == b"cuda"


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:7"])
def test_devices_that_do_not_exist(one_gpu, name):
    with pytest.raises(UserError, match="device is"):
        seed_hpc.make_vec("pong", device=name)
