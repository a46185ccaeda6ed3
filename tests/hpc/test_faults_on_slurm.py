# SPDX-License-Identifier: Apache-2.0
"""A killed rank, a lost node and a time limit on Slurm: the job ends in time and a resubmission resumes the run."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from conftest import EXPERIMENT, HERE, TRAINING

from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint, rank_file

TIMEOUT_S = 20
# The timeout, the time Slurm waits before it kills (KillWait), and some slack for two cores.
DEADLINE_S = 60
OPTIONS = [
    *TRAINING,
    "training.total_frames=1e9",
    "training.checkpoint_interval_frames=4000",
    f"distributed.timeout_s={TIMEOUT_S}",
]


class Training:
    """A training of its own in the image, submitted as a batch job."""

    def __init__(self, cluster, project, image, name):
        self.cluster, self.project, self.image = cluster, project, image
        self.results = cluster.home / "faults" / name
        self.run = self.results / EXPERIMENT / "run"
        subprocess.run(["rm", "-rf", self.results], check=True)

    def submit(self, *options, nodes=2, per_node=1, time_limit="10", overrides=()):
        srun = f"srun --mpi=none --kill-on-bad-exit=1 --ntasks-per-node={per_node} -c 1"
        image = f"apptainer --quiet exec {self.image}"
        train = f"{image} seed-hpc train --config {EXPERIMENT} --results {self.results}"
        wrap = f"{srun} {train} --run-id run --or-resume {' '.join([*OPTIONS, *overrides])}"
        layout = [f"-N{nodes}", f"--ntasks-per-node={per_node}", "-c1", f"--time={time_limit}"]
        command = ["sbatch", "--parsable", *layout, *options, f"--output={self.results}.%j.log", f"--wrap={wrap}"]
        self.results.parent.mkdir(exist_ok=True)
        subprocess.run(["chown", "seedhpc:", self.results.parent], check=True)
        job = self.cluster.run(*command, cwd=self.project).stdout.strip()
        self.log = Path(f"{self.results}.{job}.log")
        return job

    def wait_for_checkpoint(self):
        latest = self.run / "checkpoints/latest.json"
        deadline = time.monotonic() + 150
        while not latest.exists():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def status(self):
        return json.loads((self.run / "run.json").read_text())["status"]


@pytest.fixture
def training(cluster, project, image, request):
    made = Training(cluster, project, image, request.node.name.replace("[", "-").replace("]", ""))
    yield made
    cluster.run("scancel", "--user=seedhpc", "--full", check=False)
    # The next test finds the nodes free.
    deadline = time.monotonic() + 60
    while cluster.run("squeue", "-h").stdout.strip() and time.monotonic() < deadline:
        time.sleep(0.5)


def rank_processes(node):
    """Process ids of the training in a node's network namespace."""
    pids = subprocess.run(["ip", "netns", "pids", f"seed-{node}"], capture_output=True, text=True, check=True).stdout
    found = []
    for pid in pids.split():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if "train" in words and any(word.endswith("python") or word.endswith("python3") for word in words[:1]):
            found.append(int(pid))
    return found


def test_a_killed_rank_ends_the_job_and_a_resubmission_resumes(training, cluster):
    job = training.submit()
    training.wait_for_checkpoint()
    victims = rank_processes("n2")
    assert victims
    killed = time.monotonic()
    subprocess.run(["kill", "-9", *map(str, victims)], check=True)
    assert training.cluster.wait_for(job, "FAILED", "COMPLETED", "CANCELLED", timeout_s=DEADLINE_S) == "FAILED"
    assert time.monotonic() - killed < DEADLINE_S
    steps = whole_checkpoint(training.run)
    # Resumed, and with three ranks on three nodes instead of two.
    again = training.submit(nodes=3)
    deadline = time.monotonic() + 150
    while f"resuming {training.run} at" not in (training.log.read_text() if training.log.exists() else ""):
        assert time.monotonic() < deadline, training.log.read_text()
        time.sleep(0.5)
    assert "the checkpoint is of 2 processes, this run has 3" in training.log.read_text()
    cluster.run("scancel", "--signal=URG", again)
    assert cluster.wait_for(again, "COMPLETED", "FAILED", "CANCELLED", timeout_s=DEADLINE_S) == "COMPLETED"
    assert training.status() == "interrupted"
    assert whole_checkpoint(training.run) >= steps


def whole_checkpoint(run):
    """Reads the newest checkpoint, and the part of every other rank, and returns its steps."""
    latest = CheckpointStore(run / "checkpoints").latest()
    saved = load_checkpoint(latest)
    for rank in range(1, saved["world_size"]):
        of_rank = load_checkpoint(rank_file(latest, rank))
        assert of_rank["statistics"]["agent_steps"] == saved["statistics"]["agent_steps"]
    return saved["statistics"]["agent_steps"]


def test_a_lost_node_ends_every_rank(training, cluster):
    """The node's network goes: nobody closes a connection, so only time tells."""
    job = training.submit()
    training.wait_for_checkpoint()
    survivors = rank_processes("n1") + rank_processes("n2")
    assert len(survivors) >= 2
    try:
        subprocess.run(["ip", "link", "set", "seedveth2", "down"], check=True)
        deadline = time.monotonic() + DEADLINE_S
        while any(Path(f"/proc/{pid}").exists() for pid in survivors):
            assert time.monotonic() < deadline, training.log.read_text()
            time.sleep(0.5)
        assert "lost a peer" in training.log.read_text()
        assert whole_checkpoint(training.run) > 0
    finally:
        subprocess.run(["ip", "link", "set", "seedveth2", "up"], check=True)
        subprocess.run(["bash", HERE / "cluster.sh", "up"], check=True, timeout=120)
    # Failed, or queued again by Slurm itself, as it does with the jobs of a node that does not answer.
    assert cluster.job_state(job) != "COMPLETED"


def test_a_job_at_its_time_limit_writes_a_checkpoint(training, cluster):
    """As profiles/slurm does it: SIGURG some time before the limit, which is lowered once the training runs."""
    submitted = time.monotonic()
    job = training.submit("--signal=URG@45")
    training.wait_for_checkpoint()
    minutes = int((time.monotonic() - submitted) / 60) + 2  # ends in one to two minutes
    cluster.run("scontrol", "update", f"jobid={job}", f"timelimit={minutes}")
    assert cluster.wait_for(job, "COMPLETED", "TIMEOUT", "FAILED", "CANCELLED", timeout_s=180) == "COMPLETED"
    assert training.status() == "interrupted"
    assert (training.run / "resume").exists()
    assert whole_checkpoint(training.run) > 0
