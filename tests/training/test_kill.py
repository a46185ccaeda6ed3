# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments: every checkpoint is whole, and the run ends as one that nothing disturbed.

`make kill-test` does it fifty times (SEED_HPC_KILLS); the test suite three times.
"""

import json
import os
import random
import subprocess
import sys
import time

import torch

from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint

KILLS = int(os.environ.get("SEED_HPC_KILLS", "3"))
# Checkpoints follow each other closely, so that many kills hit one that is being written.
EXPERIMENT = """
agent: {name: apex_dqn, batch_size: 16, learning_starts: 200, replay_capacity: 3000, target_update_period: 20}
env: {game: pong, num_envs: 4, num_threads: 1, img_height: 42, img_width: 42, max_num_frames_per_episode: 400}
model: {encoder: dqn2013_half, hidden_size: 32}
training: {total_frames: 1e9, unroll_length: 10, num_threads: 1, tensorboard: false, device: cpu, sample_hz: 0,
           log_interval_frames: 480, checkpoint_interval_frames: 480}
"""
# Measurements; everything else in a log line is a function of the position alone.
MEASURED = {"time_s", "unix_time_s", "fps", "phase_seconds", "memory_bytes"}
MEASURED |= {"step_to_gradient_p50_s", "step_to_gradient_p95_s"}


def start(folder, *arguments):
    """Starts `seed-hpc train` as a process of its own."""
    command = [sys.executable, "-m", "seed_hpc.cli", "train", *arguments]
    with (folder / "stderr.txt").open("a") as log:
        return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=log)


def wait_for_a_checkpoint(path, process):
    """Waits until the process begins to write a checkpoint: a file appears beside those that are there."""

    def state():
        try:
            return (path / "checkpoints").stat().st_mtime_ns
        except OSError:
            return None

    before = state()
    while state() == before:
        assert process.poll() is None, "the run did not start again"
        time.sleep(0.001)


def lines(path):
    text = (path / "metrics.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in MEASURED} for line in text]


def test_killed_at_random_moments_and_resumed_equals_undisturbed(tmp_path):
    (tmp_path / "pong.yaml").write_text(EXPERIMENT)
    common = ["--config", str(tmp_path / "pong.yaml"), "--results", str(tmp_path / "results")]
    path = tmp_path / "results" / "pong" / "killed"
    store = CheckpointStore(path / "checkpoints")
    moments, frames, half_written = random.Random(0), 0, 0
    for kill in range(KILLS):
        began = time.time()
        with start(tmp_path, *common, "--run-id", "killed", "--or-resume") as process:
            if kill % 5 == 4:
                time.sleep(moments.uniform(0.0, 3.0))  # while it starts or reads the checkpoint
            else:
                wait_for_a_checkpoint(path, process)
                time.sleep(moments.uniform(0.0, 0.02 if kill % 2 else 1.0))  # while it writes, or later
            assert process.poll() is None, (tmp_path / "stderr.txt").read_text()
            process.kill()
        for file in store.folder.glob("checkpoint_*.pt"):
            load_checkpoint(file)
        half_written += any(file.stat().st_mtime > began for file in store.folder.glob(".*.partial"))
        newest = store.latest()
        if newest is not None:
            assert int(newest.stem.split("_")[1]) >= frames
            frames = int(newest.stem.split("_")[1])
    assert frames > 0
    print(f"{KILLS} kills, {half_written} of them while a checkpoint was written; {frames} frames")

    end = f"training.total_frames={frames + 1000}"
    with start(tmp_path, "--resume", str(path), end) as process:
        assert process.wait() == 0
    with start(tmp_path, *common, "--run-id", "whole", end) as process:
        assert process.wait() == 0
    whole = tmp_path / "results" / "pong" / "whole"
    assert json.loads((path / "run.json").read_text())["status"] == "finished"
    assert lines(path) == lines(whole)
    one, other = (load_checkpoint(CheckpointStore(run / "checkpoints").latest()) for run in (path, whole))
    for name, tensor in one["learner"]["network"].items():
        assert torch.equal(tensor, other["learner"]["network"][name]), name
    assert torch.equal(one["experience"]["ring"]["leaves"], other["experience"]["ring"]["leaves"])
