# SPDX-License-Identifier: Apache-2.0
"""What can be checked of the images without building them: arguments, shell syntax, labels, the list of packages."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS = ROOT / "containers"
DEFINITIONS = sorted(CONTAINERS.glob("*.def"))


def sections(definition):
    """Name -> text of each %section."""
    parts = re.split(r"(?m)^%(\w+)\n", definition.read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_both_definitions_are_there():
    assert [path.name for path in DEFINITIONS] == ["seed-hpc-cpu.def", "seed-hpc.def"]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.name)
def test_every_argument_is_declared_and_used(definition):
    declared = set(re.findall(r"(?m)^\s+(\w+)=", sections(definition)["arguments"]))
    used = set(re.findall(r"\{\{ (\w+) \}\}", definition.read_text()))
    assert declared == used
    passed = set(re.findall(r'--build-arg "?(\w+)=', (CONTAINERS / "build_image.sh").read_text()))
    assert passed <= declared, "build_image.sh passes an argument that the definition would refuse"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.name)
@pytest.mark.parametrize("section", ["post", "environment", "test", "runscript"])
def test_sections_are_valid_shell(definition, section):
    done = subprocess.run(["sh", "-n"], input=sections(definition)[section], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda path: path.name)
def test_labels(definition):
    post = sections(definition)["post"]
    for label in ("title", "version", "revision", "base.name", "base.digest"):
        assert f"org.opencontainers.image.{label} " in post
    assert "seed-hpc.inputs.digest {{ inputs_digest }}" in post


def test_apex_is_pinned_to_a_commit():
    arguments = sections(CONTAINERS / "seed-hpc.def")["arguments"]
    assert re.search(r"apex_commit=[0-9a-f]{40}\n", arguments)


@pytest.mark.parametrize("script", sorted(CONTAINERS.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_are_valid_and_say_how_they_are_used(script):
    assert subprocess.run(["bash", "-n", script]).returncode == 0
    done = subprocess.run(["bash", script], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"usage: {script.name}" in done.stderr


def test_list_of_packages():
    command = [sys.executable, CONTAINERS / "sbom.py", "--name", "here", "--version", "1.0"]
    bom = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5")
    found = {entry["name"]: entry for entry in bom["components"] if entry["purl"].startswith("pkg:pypi/")}
    assert found["numpy"]["purl"] == f"pkg:pypi/numpy@{found['numpy']['version']}"
    assert [entry["purl"] for entry in bom["components"]] == sorted(entry["purl"] for entry in bom["components"])


def test_smoke_test_passes_here():
    command = [sys.executable, CONTAINERS / "smoke_test.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert "cpu and torch" in done.stdout
