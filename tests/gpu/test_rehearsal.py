# SPDX-License-Identifier: Apache-2.0
"""`make gpu-check` as far as it goes without a device, and its parts on kernels that run on the host."""

import json
import subprocess
import sys

import pytest
import torch
from envs.test_cuda_vector import HostDevice, library  # noqa: F401  (a fixture)
from gpu import check, on_device

from seed_hpc import _native
from seed_hpc.envs import cuda_native_vector, cuda_vector


@pytest.fixture
def host_device(library, monkeypatch):  # noqa: F811
    monkeypatch.setattr(HostDevice, "library", _native.load_path(library))
    monkeypatch.setattr(cuda_vector, "CudaDevice", HostDevice)
    monkeypatch.setattr(cuda_native_vector, "CudaDevice", HostDevice)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device: make gpu-check does more than this")
def test_says_that_there_is_no_device(tmp_path):
    command = [sys.executable, "tests/gpu/check.py", "--output", tmp_path]
    environment = {"PYTHONPATH": "tests:.", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=check.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no device" in done.stdout
    record = json.loads((tmp_path / "no_device.json").read_text())
    assert record["device"] == "no device"
    assert record["passed"] is None
    assert "NVIDIA GPU" in record["reason"]


def test_parity_and_its_complaint(host_device, monkeypatch):
    assert check.parity(2, 9, games=["pong", "breakout", "freeway"]) == dict.fromkeys(
        ("pong", "breakout", "freeway"), "equal"
    )
    step = cuda_vector.CudaAtariVectorEnv.step

    def wrong(self, actions):
        result = step(self, actions)
        result[1][0] += 1
        return result

    monkeypatch.setattr(cuda_vector.CudaAtariVectorEnv, "step", wrong)
    assert on_device.difference("pong", 2, 9) == "rewards differ in step 0"


def test_environments_that_are_no_games(host_device, monkeypatch):
    assert on_device.environment_difference("ball", 5, 12) == ""
    assert on_device.environment_difference("order_book", 5, 12) == ""
    step = cuda_native_vector.CudaNativeVectorEnv.step

    def wrong(self, actions):
        result = step(self, actions)
        result[4]["episode_steps"][0] += 1
        return result

    monkeypatch.setattr(cuda_native_vector.CudaNativeVectorEnv, "step", wrong)
    assert on_device.environment_difference("ball", 5, 12) == "episode_steps differ in step 0"


def test_throughput_and_its_table(host_device):
    row = on_device.throughput("pong", 2, seconds=0.01)
    assert row["frames_per_second"] > 0
    assert row["lane_bytes"] > 2 * 210 * 160
    table = check.to_markdown({"device": "a device", "commit": "0123abc", "throughput": [row]})
    assert f"| pong | 2 | {row['frames_per_second']:,} |" in table
