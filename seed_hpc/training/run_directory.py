# SPDX-License-Identifier: Apache-2.0
"""The folder of one run, results/<experiment>/<run_id>/, and its run.json.

    config.yaml      the resolved experiment            metrics.jsonl     one object a log line
    run.json         who, where, when, status           checkpoints/      whole files; latest.json names the newest
    resume           present while a run waits to be    tensorboard/      events
                     resumed                            evaluation.json, episode.gif, profile/   written by others

Status: running -> finished | interrupted (resume it) | failed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seed_hpc import __version__
from seed_hpc.config import Experiment
from seed_hpc.errors import UserError
from seed_hpc.files import write_json

_PACKAGES = ("torch", "numpy", "gymnasium", "ale-py", "omegaconf")


class RunDirectory:
    """An existing run directory.

    Args:
        path: results/<experiment>/<run_id>.

    Raises:
        UserError: There is no run there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.info: dict[str, Any] = json.loads((path / "run.json").read_text())
        except FileNotFoundError:
            raise UserError(f"{path} holds no run.json: name a run directory, results/<experiment>/<run_id>") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{path / 'run.json'} cannot be read: {error}") from error
        if not isinstance(self.info, dict) or not {"run_id", "status"} <= self.info.keys():
            raise UserError(f"{path / 'run.json'} is no record of a run: name another run directory")

    @classmethod
    def create(
        cls,
        results: Path,
        experiment: Experiment,
        *,
        run_id: str | None = None,
        command: Sequence[str] = (),
        world_size: int = 1,
        hosts: Sequence[str] = (),
        device: str = "cpu",
    ) -> RunDirectory:
        """Makes the folder with config.yaml and run.json in it: all at once, or not at all.

        Args:
            results: The folder of all results.
            experiment: What is to run.
            run_id: Name of the run; None takes the time and a random suffix.
            command: The command line.
            world_size: Number of processes.
            hosts: Their nodes.
            device: Where the network runs.

        Raises:
            UserError: The run exists, its name cannot be a folder's, or the folder cannot be written.
        """
        if run_id is None:
            run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", run_id):
            raise UserError(f"run_id '{run_id}' is not allowed: use letters, digits, '.', '_' and '-'")
        path = results / experiment.name / run_id
        if path.exists():
            raise UserError(
                f"the run {path} exists and is never overwritten: choose another --run-id, or continue it with "
                f"`seed-hpc train --resume {path}`"
            )
        partial = path.with_name(f".{run_id}.{secrets.token_hex(4)}")
        try:
            partial.mkdir(parents=True)
            try:
                experiment.save(partial / "config.yaml")
                info = {
                    "run_id": run_id,
                    "experiment": experiment.name,
                    "agent": experiment.agent.name,
                    "game": experiment.env.game,
                    "command": list(command),
                    "commit": commit(),
                    "versions": versions(),
                    "hardware": hardware(device),
                    "world_size": world_size,
                    "hosts": list(hosts) or [socket.gethostname()],
                    "started": now(),
                    "ended": None,
                    "status": "running",
                }
                write_json(partial / "run.json", info)
                partial.rename(path)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
        except OSError as error:
            if path.exists():
                raise UserError(f"the run {path} exists and is never overwritten: choose another --run-id") from error
            raise UserError(
                f"the results folder {results} cannot be written ({error.strerror}): choose another with --results"
            ) from error
        return cls(path)

    @property
    def run_id(self) -> str:
        """Name of the run."""
        return str(self.info["run_id"])

    @property
    def status(self) -> str:
        """running, finished, interrupted or failed."""
        return str(self.info["status"])

    def set_status(self, status: str, **more: Any) -> None:
        """Writes a new status, with the time of the end unless the run goes on, and keeps the `resume` marker."""
        self.info.update(status=status, ended=None if status == "running" else now(), **more)
        write_json(self.path / "run.json", self.info)
        if status == "interrupted":
            (self.path / "resume").write_text(f"seed-hpc train --resume {self.path}\n")
        else:
            (self.path / "resume").unlink(missing_ok=True)


def now() -> str:
    """Returns the time, UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def commit() -> str | None:
    """Returns the commit of the sources, with "-dirty" if they differ from it; None outside of a git checkout."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None


def versions() -> dict[str, str]:
    """Returns the versions of what a result depends on."""
    found = {"seed_hpc": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def hardware(device: str) -> dict[str, Any]:
    """Returns the processor, memory and GPUs of this node."""
    import psutil
    import torch

    gpus = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            gpus.append({"name": properties.name, "memory_bytes": properties.total_memory})
    return {
        "device": device,
        "cpu": _cpu_name(),
        "cpu_count": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": gpus,
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def command_line() -> list[str]:
    """Returns the command as a user would type it."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]
