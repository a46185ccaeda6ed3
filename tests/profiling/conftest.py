# SPDX-License-Identifier: Apache-2.0
"""The NVML stand-in, compiled once, and a way to run Python against it."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_double.c")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def nvml_double(tmp_path_factory):
    """Returns a function (options) -> folder of a libnvidia-ml.so.1 built from nvml_double.c."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler to build the NVML stand-in")
    folders = {}

    def build(*options):
        if options not in folders:
            folder = tmp_path_factory.mktemp("nvml")
            library = folder / "libnvidia-ml.so.1"
            subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", *options, "-o", library, SOURCE], check=True)
            folders[options] = folder
        return folders[options]

    return build


@pytest.fixture
def with_nvml(nvml_double):
    """Returns a function (scenario, code, ...) -> what the code printed in a process that loads the stand-in."""

    def run(scenario, code, *, options=(), environment=None):
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "LD_LIBRARY_PATH": str(nvml_double(*options)),
                "NVML_DOUBLE": scenario,
                **(environment or {}),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run
