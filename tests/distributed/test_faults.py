# SPDX-License-Identifier: Apache-2.0
"""A rank that dies, hangs, never comes or cannot be reached: every other rank ends, with one sentence, in time."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_ranks import free_port

from seed_hpc.distributed.launch import TIMEOUT_S
from seed_hpc.training.checkpoint import load_checkpoint

RANK_PROGRAM = Path(__file__).with_name("endless_rank.py")
# Any timeout ends a rank by the same path as the default one, which is below a minute.
TEST_TIMEOUT_S = 6
SHORT_PONG = [
    "env.num_envs=4",
    "env.num_threads=1",
    "training.num_threads=1",
    "training.total_frames=1e9",
    "training.tensorboard=false",
    "training.checkpoint_interval_frames=1000",
    f"distributed.timeout_s={TEST_TIMEOUT_S + 10}",
]


def start_ranks(ranks, world_size, folder, timeout_s=TEST_TIMEOUT_S, command=None, **environment):
    port = str(free_port())
    started = []
    for rank in ranks:
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        endless = [sys.executable, str(RANK_PROGRAM), str(timeout_s), str(folder)]
        started.append(
            subprocess.Popen(
                command or endless,
                env={**os.environ, **variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return started


def wait_until_training(folder, world_size):
    deadline = time.monotonic() + 60
    while len(list(folder.glob("started.*"))) < world_size:
        assert time.monotonic() < deadline, "the ranks did not start"
        time.sleep(0.1)
    time.sleep(0.5)


def ends(ranks, within_s):
    """Waits for the ranks and returns (code, last lines of standard error) of each."""
    deadline = time.monotonic() + within_s
    results = []
    try:
        for rank in ranks:
            errors = rank.communicate(timeout=max(0.1, deadline - time.monotonic()))[1]
            results.append((rank.returncode, errors))
    finally:
        for rank in ranks:
            rank.kill()
    return results


def test_the_default_timeout_is_below_a_minute():
    assert TIMEOUT_S < 60


def test_killed_rank(tmp_path):
    ranks = start_ranks(range(3), 3, tmp_path)
    wait_until_training(tmp_path, 3)
    ranks[1].kill()
    for code, errors in ends([ranks[0], ranks[2]], within_s=TEST_TIMEOUT_S + 20):
        assert code == 1, errors
        assert "lost a peer" in errors
        assert "Traceback" not in errors


def test_stopped_rank(tmp_path):
    """A rank on a node that froze keeps its connections open and says nothing."""
    ranks = start_ranks(range(2), 2, tmp_path)
    wait_until_training(tmp_path, 2)
    ranks[1].send_signal(signal.SIGSTOP)
    try:
        ((code, errors),) = ends([ranks[0]], within_s=TEST_TIMEOUT_S + 20)
    finally:
        ranks[1].kill()
    assert code == 1, errors
    assert "lost a peer" in errors


@pytest.mark.parametrize("rank", [0, 1], ids=["the first rank", "another rank"])
def test_a_rank_that_never_comes(tmp_path, rank):
    ((code, errors),) = ends(start_ranks([1 - rank], 2, tmp_path), within_s=TEST_TIMEOUT_S + 20)
    assert code == 1, errors
    assert "did not meet the others at 127.0.0.1" in errors
    assert "Traceback" not in errors


def test_rendezvous_on_another_network(tmp_path):
    # TEST-NET-1 (RFC 5737): packets to it go nowhere.
    ranks = start_ranks([1], 2, tmp_path, MASTER_ADDR="192.0.2.1", GROUP_RANK="1", LOCAL_WORLD_SIZE="1")
    ((code, errors),) = ends(ranks, within_s=TEST_TIMEOUT_S + 20)
    assert code == 1, errors
    assert "192.0.2.1" in errors


def test_loopback_rendezvous_of_two_nodes(tmp_path):
    ranks = start_ranks([1], 2, tmp_path, GROUP_RANK="1", GROUP_WORLD_SIZE="2", LOCAL_WORLD_SIZE="1")
    ((code, errors),) = ends(ranks, within_s=30)
    assert code == 2, errors
    assert "loopback" in errors


def test_killed_rank_of_a_training(tmp_path):
    """The survivor ends with code 1 and one sentence; the last checkpoint is whole, and one process goes on from it."""
    run = tmp_path / "pong_vtrace_demo" / "run"
    train = [sys.executable, "-m", "seed_hpc.cli", "train"]
    options = ["--config", "pong_vtrace_demo", "--results", str(tmp_path), "--run-id", "run", *SHORT_PONG]
    ranks = start_ranks(range(2), 2, tmp_path, command=[*train, *options])
    latest = run / "checkpoints" / "latest.json"
    deadline = time.monotonic() + 90
    while not latest.exists():
        assert time.monotonic() < deadline, ends(ranks, within_s=1)
        time.sleep(0.1)
    ranks[1].kill()
    ((code, errors),) = ends(ranks[:1], within_s=60)
    assert code == 1, errors
    assert "lost a peer" in errors.strip().splitlines()[-1]
    assert "Traceback" not in errors
    assert json.loads((run / "run.json").read_text())["status"] == "failed"

    saved = load_checkpoint(run / "checkpoints" / json.loads(latest.read_text())["file"])
    frames = saved["statistics"]["agent_steps"] * 4
    resume = [*train, "--resume", str(run), f"training.total_frames={frames + 2000}"]
    done = subprocess.run(resume, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    info = json.loads((run / "run.json").read_text())
    assert (info["status"], info["world_size"]) == ("finished", 1)
