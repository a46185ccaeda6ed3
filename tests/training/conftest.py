# SPDX-License-Identifier: Apache-2.0
"""A tiny experiment on Catch; one thread, so that sums have one order."""

import pytest
import torch
from doubles.catch_env import CatchEnvs

from seed_hpc.config import load_experiment
from seed_hpc.training.loop import ClosedLoop
from seed_hpc.training.run_directory import RunDirectory

BASE = """
agent: {name: vtrace, discount: 0.95}
env: {game: catch, num_envs: 8, frameskip: 1}
model: {encoder: mlp}
optimizer: {learning_rate: 3e-3}
training: {total_frames: 4000, unroll_length: 10, num_threads: 1, log_interval_frames: 400, tensorboard: false,
           checkpoint_interval_s: 1000, device: cpu}
"""


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def catch(tmp_path):
    """Returns a function of overrides that makes (experiment, loop)."""
    path = tmp_path / "catch.yaml"
    path.write_text(BASE)

    def make(*overrides, max_steps=10**9):
        experiment = load_experiment(str(path), overrides)
        return experiment, ClosedLoop(experiment, CatchEnvs(experiment.env.num_envs, max_steps))

    return make


@pytest.fixture
def new_run(tmp_path):
    """Returns a function that makes a run directory for an experiment."""

    def make(experiment, run_id):
        return RunDirectory.create(tmp_path / "results", experiment, run_id=run_id)

    return make
