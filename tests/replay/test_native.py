# SPDX-License-Identifier: Apache-2.0
"""Actor against learner under the thread sanitizer; the suite runs the same program under the other ones too."""

import subprocess
from pathlib import Path

import pytest

CUDA = Path(__file__).resolve().parents[2] / "cuda"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "test_replay_concurrency"
    sources = [CUDA / "tests" / f"{path.name}.cpp", CUDA / "abi_cpu.cpp", CUDA / "replay" / "replay_cpu.cpp"]
    # GCC warns that its thread sanitizer does not model fences; all racing accesses are atomic, so none is missed.
    flags = ["-std=gnu++17", "-O1", "-g", "-pthread", "-fsanitize=thread", "-fno-sanitize-recover=all", "-Wno-tsan"]
    includes = [f"-I{CUDA}", f"-I{CUDA / 'include'}"]
    subprocess.run(["g++", *flags, *includes, *map(str, sources), "-o", str(path)], check=True)
    return path


@pytest.mark.parametrize("lanes", [1, 3])
def test_actor_and_learner_race_without_harm(program, lanes):
    result = subprocess.run([program, "30000", str(lanes)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "WARNING" not in result.stderr
