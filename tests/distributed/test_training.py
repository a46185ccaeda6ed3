# SPDX-License-Identifier: Apache-2.0
"""The closed loop in several ranks: equal parameters, one stop for all, resuming, another world size, a full disk."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from forked_ranks import run_ranks

from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint, rank_file

CATCH = """
agent: {name: vtrace, discount: 0.95}
env: {game: catch, num_envs: 4, frameskip: 1}
model: {encoder: mlp}
optimizer: {learning_rate: 3e-3}
training: {total_frames: 4800, unroll_length: 10, num_threads: 1, log_interval_frames: 800, tensorboard: false,
           checkpoint_interval_frames: 1600, device: cpu}
distributed: {exchange: grouped_all_gather, timeout_s: 20}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "catch.yaml"
    path.write_text(CATCH)
    return str(path)


R2D2 = """agent: {name: r2d2, stack_num: 1, burn_in: 5, length: 10, batch_size: 4, learning_starts: 300,
        replay_capacity: 1200, target_update_period: 10}"""


@pytest.fixture(params=["vtrace", "r2d2"])
def agent_config(config, request):
    """Of an agent without and of one with a replay and a core."""
    if request.param == "r2d2":
        text = CATCH.replace("agent: {name: vtrace, discount: 0.95}", R2D2)
        Path(config).write_text(text.replace("{encoder: mlp}", "{encoder: mlp, core: lstm, lstm_size: 16}"))
    return config


def run_json(results):
    return json.loads((results / "catch/run/run.json").read_text())


def test_two_ranks_stop_together_and_resume_bit_for_bit(agent_config, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    first, second = run_ranks("train_catch", 2, tmp_path, config=agent_config, results=str(whole))
    assert (first[0], first[1]) == ("finished", 4800)
    assert first == second

    # The signal reaches rank 1 only.
    stopped = run_ranks(
        "train_catch", 2, tmp_path, config=agent_config, results=str(parts), signal_rank=1, signal_iteration=17
    )
    assert [rank[:2] for rank in stopped] == [("interrupted", 17 * 80)] * 2
    assert run_json(parts)["status"] == "interrupted"
    resumed = run_ranks("train_catch", 2, tmp_path, config=agent_config, results=str(parts), resume=True)
    assert resumed == [first, second]

    info = run_json(parts)
    assert info["status"] == "finished"
    assert info["world_size"] == 2
    assert info["groups"] == [[0, 1]]
    assert info["gradient_exchange"] == "grouped_all_gather"
    lines = [json.loads(line) for line in (parts / "catch/run/metrics.jsonl").read_text().splitlines()]
    assert [line["frames"] for line in lines] == list(range(800, 4801, 800))
    assert lines[-1]["episodes"] == pytest.approx(4800 / 10, abs=8)  # of both ranks


@pytest.mark.parametrize("ranks", [1, 3])
def test_resume_with_another_number_of_ranks(config, tmp_path, ranks):
    run_ranks("train_catch", 2, tmp_path, config=config, results=str(tmp_path), signal_rank=0, signal_iteration=20)
    before = CheckpointStore(tmp_path / "catch/run/checkpoints").latest()
    resumed = run_ranks("train_catch", ranks, tmp_path, config=config, results=str(tmp_path), resume=True)
    assert {rank[0] for rank in resumed} == {"finished"}
    assert {rank[1] for rank in resumed} == {1600 + -(-3200 // (40 * ranks)) * 40 * ranks}
    assert all(rank[2] == resumed[0][2] for rank in resumed)
    assert run_json(tmp_path)["world_size"] == ranks
    assert load_checkpoint(before)["world_size"] == 2


def test_full_disk_ends_every_rank_and_leaves_a_whole_checkpoint(config, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], check=True)
    try:
        keep_all = ["training.keep_checkpoints=1000", "training.checkpoint_interval_frames=160"]
        failed = run_ranks("train_catch", 2, tmp_path, config=config, results=str(disk), overrides=keep_all)
        assert all(rank[0].startswith("failed: ") for rank in failed)
        assert "cannot be written" in failed[0][0]
        assert "No space left" in failed[0][0]
        latest = CheckpointStore(disk / "catch/run/checkpoints").latest()
        assert latest is not None
        frames = load_checkpoint(latest)["statistics"]["agent_steps"]
        assert load_checkpoint(rank_file(latest, 1))["statistics"]["agent_steps"] == frames > 0
    finally:
        subprocess.run(["umount", disk], check=True)
