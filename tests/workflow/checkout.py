# SPDX-License-Identifier: Apache-2.0
"""A checkout of its own for tests that run Snakemake, and the way they call it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from seed_hpc import pipeline

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def make_checkout(parent):
    """The workflow's files copied, the sources linked."""
    folder = parent / "checkout"
    folder.mkdir()
    for name in ("workflow", "config", "profiles"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("cuda", "seed_hpc", "CMakeLists.txt"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "Snakefile", folder)
    return folder


def snakemake(folder, *arguments, expected=0):
    """Runs Snakemake and returns all that it printed."""
    command = [sys.executable, "-m", "snakemake", *arguments]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=400)
    output = done.stdout + done.stderr
    assert done.returncode == expected, output
    return output


def runs_of(folder):
    """The runs that the checkout's configuration asks for."""
    schema = pipeline.read_yaml(folder / "workflow" / "schemas" / "config.schema.yaml")
    config = pipeline.check_config(pipeline.read_yaml(folder / "config" / "config.yaml"), schema)
    return pipeline.planned_runs(config, folder)
