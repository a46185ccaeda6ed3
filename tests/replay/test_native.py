# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the C++ tests of the replay: random numbers, and actor against learner under sanitizers."""

import subprocess
from pathlib import Path

import pytest

CUDA = Path(__file__).resolve().parents[2] / "cuda"


def build(folder: Path, test: str, *flags: str) -> Path:
    program = folder / test
    sources = [CUDA / "tests" / f"{test}.cpp", CUDA / "abi_cpu.cpp", CUDA / "replay" / "replay_cpu.cpp"]
    # GCC warns that its thread sanitizer does not model fences; all racing accesses are atomic, so none is missed.
    command = [
        "g++",
        "-std=gnu++17",
        "-O1",
        "-g",
        "-pthread",
        "-Wno-tsan",
        *flags,
        f"-I{CUDA}",
        f"-I{CUDA / 'include'}",
    ]
    subprocess.run([*command, *map(str, sources), "-o", str(program)], check=True)
    return program


def test_philox_gives_the_known_answers(tmp_path):
    subprocess.run([build(tmp_path, "test_random")], check=True)


@pytest.mark.parametrize(
    ("sanitizer", "num_steps"), [("thread", 30_000), ("address,undefined", 60_000)], ids=["thread", "address"]
)
def test_actor_and_learner_race_without_harm(tmp_path, sanitizer, num_steps):
    program = build(tmp_path, "test_replay_concurrency", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    for lanes in (1, 3):
        result = subprocess.run([program, str(num_steps), str(lanes)], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "WARNING" not in result.stderr
