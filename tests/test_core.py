# SPDX-License-Identifier: Apache-2.0
"""Runs the C++ tests of cuda/tests under AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "cuda" / "tests").glob("test_*.cpp"))


@pytest.fixture(scope="session")
def executables():
    """The folder of the test programs, built with sanitizers; the build folder is kept for the next run."""
    if shutil.which(os.environ.get("CXX", "g++")) is None or shutil.which("cmake") is None:
        pytest.skip("the C++ tests need a C++ compiler and CMake")
    build = ROOT / "build" / "sanitized"
    configure = ["-DSEED_BUILD_TESTS=ON", "-DSEED_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    for command in (
        ["cmake", "-S", str(ROOT), "-B", str(build), f"-DSEED_LIBRARY_DIR={build}", *configure],
        ["cmake", "--build", str(build), "--parallel", "2"],
    ):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return build / "cuda" / "tests"


@pytest.mark.parametrize("name", NAMES)
def test_core(executables, name):
    result = subprocess.run([executables / name], capture_output=True, text=True, check=False, timeout=500)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-6000:]
