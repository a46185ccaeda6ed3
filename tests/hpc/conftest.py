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
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
USER = "seedhpc"
STATE = Path("/var/lib/seed-hpc-cluster")
CACHE = Path("/var/lib/seed-hpc-images")


def pytest_collection_modifyitems(items):
    reason = None
    if os.environ.get("SEED_HPC_TEST_CLUSTER") != "1":
        reason = "installs and starts a Slurm cluster: run `make test-hpc`"
    elif os.geteuid() != 0:
        reason = "needs root, to start Slurm's daemons and to make network namespaces"
    elif not Path("/etc/debian_version").exists() or shutil.which("apt-get") is None:
        reason = "installs Slurm and Apptainer from Debian packages, and this is not Debian"
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
            "SLURM_CONF": str(STATE / "slurm.conf"),
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


@pytest.fixture(scope="session")
def cluster():
    script = HERE / "cluster.sh"
    started = subprocess.run(["bash", script, "up"], capture_output=True, text=True, timeout=900)
    assert started.returncode == 0, started.stdout + started.stderr
    try:
        yield Cluster(home=make_user())
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


@pytest.fixture(scope="session")
def image_inputs(apptainer, project):
    """A Debian root folder and wheels, since no container registry may be reachable; kept for the next time."""
    CACHE.mkdir(exist_ok=True)
    base, wheels = CACHE / "base", CACHE / "wheels"
    subprocess.run(["bash", ROOT / "containers/make_base.sh", base], check=True, timeout=1200)
    subprocess.run(["bash", ROOT / "containers/make_wheels.sh", wheels, sys.executable], check=True, timeout=1200)
    return base, wheels


@pytest.fixture(scope="session")
def image(cluster, project, image_inputs):
    """The CPU image, built by the user with fakeroot."""
    base, wheels = image_inputs
    sif = cluster.home / "images/seed-hpc-cpu.sif"
    build = ["bash", "containers/build_image.sh", "containers/seed-hpc-cpu.def", str(sif)]
    done = cluster.run(*build, "--base", str(base), "--wheels", str(wheels), cwd=project, timeout_s=1800)
    (cluster.home / "build_image.log").write_text(done.stdout)
    return sif
