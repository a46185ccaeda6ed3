# SPDX-License-Identifier: Apache-2.0
"""Real runs on Pong through the command line: resume bit for bit, evaluation, picture of an episode."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from PIL import Image

from seed_hpc import cli
from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint

EXPERIMENT = """
agent: {name: vtrace}
env: {game: pong, num_envs: 4, num_threads: 1, max_num_frames_per_episode: 400, repeat_action_probability: 0.25}
model: {encoder: dqn2013, core: lstm, lstm_size: 32}
training: {total_frames: 4800, unroll_length: 10, num_threads: 1, tensorboard: false, device: cpu,
           log_interval_frames: 480, sample_hz: 0}
evaluation: {episodes: 3, random_episodes: 4, gif_frames: 20}
"""
TIMES = {"time_s", "unix_time_s", "fps", "phase_seconds", "step_to_gradient_p50_s", "step_to_gradient_p95_s"}


def start(folder, run_id):
    """Starts `seed-hpc train` as a process of its own."""
    command = [sys.executable, "-m", "seed_hpc.cli", "train", "--config", str(folder / "pong.yaml")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, "--results", str(folder / "results"), "--run-id", run_id], env=environment, stderr=subprocess.DEVNULL
    )


def lines(path):
    text = (path / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in text]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """An uninterrupted run and one that got SIGTERM and was resumed: (path of the first, path of the second)."""
    folder = tmp_path_factory.mktemp("atari")
    (folder / "pong.yaml").write_text(EXPERIMENT)
    with start(folder, "whole") as process:
        assert process.wait() == 0
    whole, parts = folder / "results" / "pong" / "whole", folder / "results" / "pong" / "parts"
    with start(folder, "parts") as process:
        metrics = parts / "metrics.jsonl"
        while not (metrics.is_file() and metrics.stat().st_size > 0):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    info = json.loads((parts / "run.json").read_text())
    assert info["status"] == "interrupted"
    assert 0 < info["frames"] < 4800
    assert (parts / "resume").read_text().startswith("seed-hpc train --resume ")
    assert cli.main(["train", "--resume", str(parts)]) == 0
    return whole, parts


def test_resumed_after_sigterm_equals_uninterrupted(runs):
    whole, parts = runs
    assert len(lines(whole)) == 10
    assert lines(parts) == lines(whole)
    one, other = (load_checkpoint(CheckpointStore(run / "checkpoints").latest()) for run in runs)
    for name, tensor in one["learner"]["network"].items():
        assert torch.equal(tensor, other["learner"]["network"][name]), name
    for a, b in zip(one["actor"]["envs"], other["actor"]["envs"], strict=True):
        assert torch.equal(a, b)


def test_evaluation_is_reproducible_and_shows_an_episode(runs):
    whole, parts = runs
    assert cli.main(["evaluate", str(whole)]) == 0
    assert cli.main(["evaluate", str(parts), "--no-gif"]) == 0
    result, other = (json.loads((run / "evaluation.json").read_text()) for run in runs)
    assert result["returns"] == other["returns"]
    assert len(result["returns"]) == 3
    assert result["truncated"] == 3
    assert len(result["random"]["returns"]) == 4
    assert result["human"] == 14.6
    with Image.open(whole / "episode.gif") as gif:
        assert gif.size == (160, 210)
        assert 10 < gif.n_frames <= 20
        first = gif.convert("RGB").getcolors()
    assert len(first) >= 4  # background, wall, two players
