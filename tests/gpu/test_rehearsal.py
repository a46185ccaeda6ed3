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


def test_rollouts_are_compared(monkeypatch):
    assert on_device.actor_difference("pong_apex_dqn", "cpu", num_unrolls=3) == ""
    load, seeds = on_device.load_experiment, iter(("1", "2"))
    monkeypatch.setattr(
        on_device, "load_experiment", lambda name, options: load(name, [*options, f"training.seed={next(seeds)}"])
    )
    assert "differs in unroll 0" in on_device.actor_difference("breakout_vtrace_demo", "cpu", num_unrolls=1)


@pytest.mark.parametrize(
    ("name", "result", "fine"),
    [
        ("loop", "failed: Traceback", False),
        ("loop", "not finished after 120 s", False),
        ("tests", "passed: 3 passed, 9 skipped in 2 s", False),
        ("exchange", "failed: ", False),
        ("compute_sanitizer", "not run: compute-sanitizer is not installed", True),
        ("compute_sanitizer", "failed: ", False),
    ],
)
def test_what_a_device_must_pass(name, result, fine):
    record = dict.fromkeys(("tests", "exchange", "loop", "compute_sanitizer"), "passed: 12 passed in 2 s")
    assert check.tools_passed(record)
    assert check.tools_passed({**record, name: result}) == fine


def test_what_was_found_before_a_fault_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "find_device", lambda: ("A GPU", ""))
    monkeypatch.setattr(sys, "argv", ["check.py", "--output", str(tmp_path)])

    def fault(args, record):
        record["parity"] = {"pong": "equal"}
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(check, "check", fault)
    assert check.main() == 1
    record = json.loads((tmp_path / "a_gpu.json").read_text())
    assert (record["parity"], record["passed"]) == ({"pong": "equal"}, False)
    assert "illegal memory access" in record["error"]
