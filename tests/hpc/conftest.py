# SPDX-License-Identifier: Apache-2.0
"""The Slurm cluster, Apptainer and unprivileged user of the cluster tests; `make test-hpc` runs them.

Everything is installed and started here, and the daemons, namespaces and links are gone afterwards.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
USER = "seedhpc"
CACHE = Path("/var/lib/seed-hpc-images")


def pytest_collection_modifyitems(items):
    reason = None
    if os.environ.get("SEED_HPC_TEST_CLUSTER") != "1":
        reason = "installs and starts a Slurm cluster: run `make test-hpc`"
    elif os.geteuid() != 0:
        reason = "needs root, to start Slurm's daemons and to make network namespaces"
    elif not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        reason = "installs Slurm and Apptainer from Debian packages, and this is not Debian"
    elif subprocess.run(["unshare", "--net", "--uts", "true"], capture_output=True).returncode != 0:
        reason = "makes network namespaces, which root of this machine may not (a container without privileges)"
    for item in items:
        if HERE in Path(item.fspath).parents:
            item.add_marker(pytest.mark.hpc)
            item.add_marker(pytest.mark.timeout(3000))  # the first test of each kind installs, downloads and builds
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Cluster:
    """Runs commands as the unprivileged user, as on a login node."""

    home: Path

    def run(
        self, *command: str, cwd: Path | None = None, timeout_s: float = 300, check: bool = True, **environment: str
    ):
        """Returns the finished process; standard error is part of standard output."""
        done = subprocess.run(
            [*self.as_user(**environment), *command],
            cwd=cwd or self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        assert not check or done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}"
        return done

    def as_user(self, **environment: str) -> list[str]:
        variables = {
            "HOME": str(self.home),
            "USER": USER,
            "PATH": f"{self.home}/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin",
            "OMP_NUM_THREADS": "1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
            **environment,
        }
        become = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"]
        return [*become, "env", "-i", *(f"{name}={value}" for name, value in variables.items())]

    def job_state(self, job: str) -> str:
        """PENDING, RUNNING, COMPLETED, FAILED ..."""
        shown = self.run("scontrol", "-o", "show", "job", job).stdout
        return next(word.partition("=")[2] for word in shown.split() if word.startswith("JobState="))

    def wait_for(self, job: str, *states: str, timeout_s: float = 120) -> str:
        """Waits until the job is in one of the states and returns which."""
        deadline = time.monotonic() + timeout_s
        while (state := self.job_state(job)) not in states:
            assert time.monotonic() < deadline, f"job {job} is still {state}"
            time.sleep(0.5)
        return state


def apt_install(*packages: str) -> None:
    """Installs Debian packages; the lists of a new machine may be old or absent."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, capture_output=True, env=environment)
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    done = subprocess.run(install, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def home():
    return make_user()


@dataclass(frozen=True)
class Downloads:
    """What is fetched in the background while Slurm and Apptainer are installed; each future gives a folder."""

    base: Future[Path]  # a Debian root folder
    wheels: Future[Path]
    login: Future[Path]  # a virtual environment with Snakemake and its Slurm plugin, without torch


@pytest.fixture(scope="session")
def downloads(home):
    CACHE.mkdir(exist_ok=True)
    if shutil.which("debootstrap") is None or not Path("/usr/share/doc/python3-venv").exists():
        apt_install("debootstrap", "python3-venv")  # here, since apt knows no two at a time
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield Downloads(
            base=pool.submit(make, "make_base.sh", CACHE / "base"),
            wheels=pool.submit(make, "make_wheels.sh", CACHE / "wheels", sys.executable),
            login=pool.submit(make_login_environment, home / "venv"),
        )


def make(script: str, folder: Path, *arguments: str) -> Path:
    command = ["bash", ROOT / "containers" / script, folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
    return folder


def make_login_environment(venv: Path) -> Path:
    if not (venv / "bin/snakemake").exists():
        subprocess.run(["/usr/bin/python3", "-m", "venv", venv], check=True)
        # By root, whose pip knows the package index.
        packages = ["snakemake", "snakemake-executor-plugin-slurm", "omegaconf"]
        pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
        subprocess.run([*pip, *packages], check=True, timeout=1500)
        subprocess.run(["chown", "-R", f"{USER}:", venv], check=True)
    return venv


@pytest.fixture(scope="session")
def cluster(home, downloads):
    script = HERE / "cluster.sh"
    started = subprocess.run(["bash", script, "up"], capture_output=True, text=True, timeout=900)
    assert started.returncode == 0, started.stdout + started.stderr
    try:
        yield Cluster(home=home)
    finally:
        subprocess.run(["bash", script, "down"], check=True, timeout=120)


def make_user() -> Path:
    """An ordinary user with subordinate ids, which fakeroot builds need."""
    try:
        found = pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)
        found = pwd.getpwnam(USER)
    for file in ("/etc/subuid", "/etc/subgid"):
        if f"{USER}:" not in Path(file).read_text():
            with open(file, "a", encoding="utf-8") as ids:
                ids.write(f"{USER}:700000:65536\n")
    return Path(found.pw_dir)


@pytest.fixture(scope="session")
def project(cluster):
    """This project's files in the user's home, as a user would have them: without what was built or run here."""
    target = cluster.home / "seed-hpc"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    listed = subprocess.run(
        [*git, "ls-files", "-z", "-co", "--exclude-standard"], check=True, capture_output=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    (target / "COMMIT").write_text(commit)
    subprocess.run(["chown", "-R", f"{USER}:", target], check=True)
    return target


@pytest.fixture(scope="session")
def apptainer():
    script = HERE / "install_apptainer.sh"
    done = subprocess.run(["bash", script], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr


EXPERIMENT = "pong_vtrace_demo"
IMAGE = "results/images/seed-hpc-cpu.sif"
TRAINING = [
    "training.total_frames=48000",
    "training.log_interval_frames=8000",
    "training.checkpoint_interval_frames=16000",
    "training.num_threads=1",
    "env.num_envs=8",
    "env.num_threads=1",
    "env.max_num_frames_per_episode=2000",
    "evaluation.episodes=2",
    "evaluation.random_episodes=2",
    "distributed.exchange=grouped_all_gather",
]


def edited_profile(project: Path) -> dict:
    """profiles/slurm as a user of this cluster would edit it: partition, no account, resources per rule."""
    profile = yaml.safe_load((project / "profiles/slurm/config.yaml").read_text())
    defaults = profile["default-resources"]
    defaults["slurm_partition"] = "gpu"
    del defaults["slurm_account"]
    profile["slurm-no-account"] = True
    profile["slurm-status-command"] = "squeue"
    profile["slurm-init-seconds-before-status-checks"] = 2
    profile["latency-wait"] = 10
    two_nodes = {"mpi": "srun", "nodes": 2, "tasks_per_node": 2, "tasks_per_gpu": 0, "gres": "gpu:2"}
    profile["set-resources"] = {
        "train_agent": {**two_nodes, "mem_mb": 6000, "runtime": 20},
        "evaluate_agent": {"gres": "gpu:1", "mem_mb": 3000, "runtime": 20},
        "profile_run": {"gres": "gpu:1", "mem_mb": 3000, "runtime": 20},
        "build_image": {"mem_mb": 4000, "runtime": 60},
    }
    profile["set-threads"] = {"train_agent": 1}
    return profile


@dataclass(frozen=True)
class Nsight:
    """Nsight Systems in a folder of its own, or the reason why there is none."""

    folder: Path
    missing: str | None

    @property
    def apptainer_args(self) -> str:
        """Options that lend it to an image, where it is then on the PATH."""
        return "" if self.missing else f"--bind {self.folder} --bind {self.folder}/bin/nsys:/usr/local/bin/nsys"


@pytest.fixture(scope="session")
def nsight():
    folder = Path(os.environ.get("SEED_HPC_NSIGHT_DIR", "/var/lib/seed-hpc-nsight"))
    script = HERE / "install_nsight.sh"
    done = subprocess.run(["bash", script, folder], capture_output=True, text=True, timeout=900)
    reason = f"Nsight Systems cannot be installed here: {done.stderr.strip()}"
    return Nsight(folder, missing=reason if done.returncode else None)


@pytest.fixture(scope="session")
def snakemake(cluster, project, apptainer, nsight, downloads):
    """Returns a function that runs the pipeline, or one of its targets, through the edited profile, in the image."""
    site = cluster.home / "site"
    site.mkdir(exist_ok=True)
    (site / "config.yaml").write_text(yaml.safe_dump(edited_profile(project)))
    config = {
        "experiments": [{"name": EXPERIMENT, "run_id": "cluster", "overrides": TRAINING}],
        "container": {
            "image": IMAGE,
            "definition": "containers/seed-hpc-cpu.def",
            "base": str(downloads.base.result()),
            "wheels": str(downloads.wheels.result()),
        },
        "kernels": {"cuda_architectures": []},
        "profile": {"enabled": True, "tool": "torch" if nsight.missing else "nsys", "window": "2:3"},
    }
    (site / "what.yaml").write_text(yaml.safe_dump(config))
    downloads.login.result()

    def run(*targets: str) -> str:
        command = ["snakemake", *targets, "--profile", str(site), "--workflow-profile", "profiles/slurm-apptainer"]
        # This cluster has no NVIDIA driver for --nv to lend.
        command += [f"--apptainer-args={nsight.apptainer_args}", "--configfile", str(site / "what.yaml")]
        done = cluster.run(*command, cwd=project, timeout_s=2400, check=False, PYTHONPATH=str(project))
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def image(project, snakemake):
    """The CPU image, built by the user in a job of the pipeline."""
    snakemake(IMAGE)
    return project / IMAGE


@pytest.fixture(scope="session")
def pipeline_output(cluster, project, image, snakemake):
    """What Snakemake printed when the rest of the pipeline ran, in which the training's job was stopped once."""
    stop = threading.Event()
    stopper = threading.Thread(target=stop_the_training_once, args=(cluster, project, stop))
    stopper.start()
    try:
        return snakemake()
    finally:
        stop.set()
        stopper.join()


def stop_the_training_once(cluster: Cluster, project: Path, stop: threading.Event) -> None:
    """Signals the job as Slurm does before its time limit (`--signal` in the profile), after the first checkpoint."""
    latest = project / "results" / EXPERIMENT / "cluster-1/checkpoints/latest.json"
    while not latest.exists():
        if stop.wait(0.2):
            return
    cluster.run("scancel", "--signal=URG", *cluster.run("squeue", "-h", "-o", "%i").stdout.split())
