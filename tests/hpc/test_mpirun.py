# SPDX-License-Identifier: Apache-2.0
"""Ranks started by Open MPI's mpirun, with mpi4py and without."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, apt_install


@pytest.fixture(scope="module")
def mpi4py(tmp_path_factory):
    """A folder with mpi4py, beside an installed Open MPI."""
    if shutil.which("mpirun") is None:
        apt_install("openmpi-bin")
    folder = tmp_path_factory.mktemp("mpi4py")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, "mpi4py>=4"]
    subprocess.run(pip, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("with_mpi4py", [True, False])
def test_two_ranks_meet(mpi4py, tmp_path, with_mpi4py):
    out = tmp_path / "topology.json"
    path = f"{ROOT}:{mpi4py}" if with_mpi4py else str(ROOT)
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
    }
    mpirun = ["mpirun", "-np", "2", "--oversubscribe", sys.executable, "-m", "seed_hpc.cli"]
    command = [*mpirun, "topology", "--device", "cpu", "--measure", "--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert result["nvlink_groups"] == [[0, 1]]
    assert result["cost_is"] == "measured"
