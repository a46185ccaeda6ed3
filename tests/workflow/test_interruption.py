# SPDX-License-Identifier: Apache-2.0
"""A pipeline that is interrupted goes on where it stopped at the next call, up to the report; nothing is done twice."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from checkout import ENVIRONMENT, make_checkout, runs_of, snakemake

pytestmark = pytest.mark.slow

CONFIG = """
experiments:
  - name: tiny
    overrides: []
kernels: {cuda_architectures: []}
profile: {window: "1:2"}
"""
EXPERIMENT = """
agent: {name: vtrace}
env: {game: pong, num_envs: 4, num_threads: 1, max_num_frames_per_episode: 2000}
evaluation: {episodes: 2, random_episodes: 2, gif_frames: 20}
model: {encoder: dqn2013}
training:
  total_frames: 10000
  num_threads: 1
  log_interval_s: 0
  log_interval_frames: 960
  checkpoint_interval_frames: 1600
  tensorboard: false
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The results of build_kernels_cpu, built once."""
    folder = prepare(tmp_path_factory.mktemp("library"))
    snakemake(folder, "--profile", "profiles/local", "results/kernels/cpu/kernels.json")
    return folder / "results" / "kernels"


def prepare(parent):
    folder = make_checkout(parent)
    (folder / "config" / "config.yaml").write_text(CONFIG)
    (folder / "config" / "experiments" / "tiny.yaml").write_text(EXPERIMENT)
    return folder


@pytest.fixture
def checkout(tmp_path, library):
    folder = prepare(tmp_path)
    (folder / "results").mkdir()
    subprocess.run(["cp", "-r", str(library), str(folder / "results")], check=True)  # newer than the links to sources
    return folder


def lines(directory):
    path = directory / "metrics.jsonl"
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def start_and_stop(folder, directory, target, number):
    """Starts Snakemake as a terminal does, waits for some log lines, and signals the whole group."""
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/local", target]
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT, stdout=output, stderr=output, start_new_session=True
        )
        deadline = time.monotonic() + 200
        while len(lines(directory)) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert process.poll() is None, (folder / "output.txt").read_text()
        os.killpg(process.pid, number)
        assert process.wait(120) != 0
    return (folder / "output.txt").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_the_next_call_resumes_from_the_checkpoint(checkout, number):
    (run,) = runs_of(checkout)
    directory = checkout / "results" / "tiny" / run.run_id
    target = f"results/tiny/{run.run_id}/training.json"
    output = start_and_stop(checkout, directory, target, number)
    assert not (directory / "training.json").exists()
    before = lines(directory)
    info = json.loads((directory / "run.json").read_text())
    if number == signal.SIGINT:
        assert info["status"] == "interrupted"
        assert "it resumes there" in output
    else:
        assert info["status"] == "running"
        snakemake(checkout, "--unlock")  # killed at once, Snakemake could not take its lock away
    assert max(line["frames"] for line in before) < 10000
    snakemake(checkout, "--profile", "profiles/local", target)
    after = lines(directory)
    record = json.loads((directory / "training.json").read_text())
    assert record["status"] == "finished"
    assert record["frames"] >= 10000
    frames = [line["frames"] for line in after]
    assert frames == sorted(set(frames))
    # The lines from before the checkpoint are still there: the run went on, it did not begin again.
    assert after[0] == before[0]
    assert json.loads((directory / "run.json").read_text())["started"] == info["started"]
    assert "Nothing to be done" in snakemake(checkout, "--profile", "profiles/local", target)
    if number == signal.SIGINT:
        to_the_report(checkout, directory)


def to_the_report(checkout, directory):
    """The rest of the pipeline, for real: evaluation, profile, report; then nothing is left to do."""
    output = snakemake(checkout, "--profile", "profiles/local")
    assert "Training" not in output
    document = json.loads((checkout / "results" / "report" / "report.json").read_text())
    (run,) = document["runs"]
    assert run["frames"] >= 10000
    assert run["evaluation"]["episodes"] == 2
    assert run["gif"] == "episode.gif"
    assert {"environment", "inference", "learner"} <= {phase["name"] for phase in run["phases"]}
    assert run["profiles"][0]["tool"] == "torch"
    assert run["profiles"][0]["api"], "the profile holds no operator"
    assert any(row["metric"] == "cpu_utilisation" for row in run["utilisation"])
    assert {job["name"].split("/")[0] for job in document["jobs"]} >= {"train_agent", "evaluate_agent", "profile_run"}
    assert document["kernels"][0]["status"] == "built"
    assert "Nothing to be done" in snakemake(checkout, "--profile", "profiles/local")
