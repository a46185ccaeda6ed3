# SPDX-License-Identifier: Apache-2.0
"""A real Nsight Systems around a loop on the CPU; around a training in an image: test_pipeline_on_slurm.py."""

import json
import sys

import pytest
from conftest import ROOT

from seed_hpc.profiling import profiled_run
from seed_hpc.profiling.profiled_run import Window

LOOP = """
import torch
from seed_hpc.profiling import ranges
torch.set_num_threads(1)
ranges.start()
for _ in range(30):
    with ranges.phase("environment"):
        torch.ones(64, 64) @ torch.ones(64, 64)
    with ranges.phase("learner"), ranges.phase("exchange"):
        torch.ones(8).sum()
    ranges.step()
"""


@pytest.fixture
def environment(nsight, monkeypatch):
    if nsight.missing:
        pytest.skip(nsight.missing)
    monkeypatch.setenv("PATH", str(nsight.folder / "bin"), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_window_of_a_loop_becomes_a_table_of_ranges(environment, tmp_path):
    command = [sys.executable, "-c", LOOP]
    profile = profiled_run.profile_with_nsys(command, tmp_path, rank=1, window=Window(first=10, count=5))
    counts = {row.name.removeprefix("seed-hpc:"): row.count for row in profile.ranges}
    assert counts == {"capture": 1, "environment": 5, "learner": 5, "exchange": 5}
    durations = {row.name.removeprefix("seed-hpc:"): row.total_ns for row in profile.ranges}
    assert durations["capture"] >= durations["learner"] + durations["environment"] > durations["exchange"] > 0
    document = json.loads((tmp_path / "nsys-rank1.json").read_text())
    assert document["version"].startswith("20")
    assert document["kernels"] == []
    assert any("no kernel table" in note for note in document["notes"])
