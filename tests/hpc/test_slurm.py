# SPDX-License-Identifier: Apache-2.0
"""Launch, exchange and faults of several ranks on several Slurm nodes, in the image."""

import json
import re

import pytest

from seed_hpc.distributed.launch import expand_hostlist

SRUN = ("srun", "--mpi=none", "--kill-on-bad-exit=1")
INSIDE = ("apptainer", "--quiet", "exec")


def test_four_nodes_with_gpus(cluster):
    listed = cluster.run("sinfo", "-h", "-N", "-o", "%N %G").stdout.split("\n")
    assert [line for line in listed if line] == [f"n{i} gpu:h200:4" for i in (1, 2, 3, 4)]


def test_a_job_on_two_nodes_gets_its_gpus(cluster):
    show = 'echo "$(hostname) $SLURM_PROCID $CUDA_VISIBLE_DEVICES"'
    out = cluster.run(*SRUN, "-N2", "-n4", "--ntasks-per-node=2", "--gres=gpu:2", "bash", "-c", show).stdout
    assert sorted(out.split("\n")[:-1]) == ["n1 0 0,1", "n1 1 0,1", "n2 2 0,1", "n2 3 0,1"]


@pytest.mark.parametrize("hostlist", ["n1", "n[1-3]", "a[08-11],b,c[1,3]", "r[1-2]n[1-3]"])
def test_hostlists_expand_as_scontrol_expands_them(cluster, hostlist):
    assert list(expand_hostlist(hostlist)) == cluster.run("scontrol", "show", "hostnames", hostlist).stdout.split()


def test_image_has_labels_and_a_list_of_packages(cluster, image):
    inspected = cluster.run("apptainer", "--quiet", "inspect", "--json", str(image)).stdout
    labels = json.loads(inspected)["data"]["attributes"]["labels"]
    inputs = json.loads(image.with_suffix(".inputs.json").read_text())
    assert labels["org.opencontainers.image.revision"] == inputs["commit"]
    assert labels["seed-hpc.inputs.digest"] == inputs["inputs_digest"]
    assert re.fullmatch("[0-9a-f]{64}", labels["org.opencontainers.image.base.digest"])
    packages = {
        entry["purl"].split("@")[0] for entry in json.loads(image.with_suffix(".sbom.json").read_text())["components"]
    }
    assert {"pkg:pypi/torch", "pkg:pypi/seed-hpc", "pkg:deb/debian/python3"} <= packages


def test_the_build_ran_the_self_test(project, image):
    assert "and torch" in (project / "results/pipeline/logs/build_image.log").read_text()


def measure(cluster, image, *layout):
    """Runs `seed-hpc topology --measure` in the image on the nodes and returns its JSON."""
    out = cluster.home / "topology.json"
    out.unlink(missing_ok=True)
    inside = [*INSIDE, str(image), "seed-hpc", "topology", "--measure", "--json", str(out)]
    cluster.run(*SRUN, *layout, *inside, timeout_s=180)
    return json.loads(out.read_text())


def test_two_by_two_ranks_form_groups_by_node(cluster, image):
    result = measure(cluster, image, "-N2", "-n4", "--ntasks-per-node=2", "--gres=gpu:2")
    assert result["nvlink_groups"] == [[0, 1], [2, 3]]
    assert [device["host"] for device in result["devices"]] == ["n1", "n1", "n2", "n2"]
    assert result["cost_is"] == "measured"


def test_uneven_groups_on_three_nodes(cluster, image):
    result = measure(cluster, image, "-N3", "-n4", "--distribution=block", "--gres=gpu:2")
    assert sorted(map(len, result["nvlink_groups"])) == [1, 1, 2]


def test_a_loopback_rendezvous_is_refused(cluster, image):
    layout = ("-N2", "-n2", "--ntasks-per-node=1")
    command = [*SRUN, *layout, *INSIDE, str(image), "seed-hpc", "topology", "--measure"]
    done = cluster.run(*command, MASTER_ADDR="127.0.0.1", check=False, timeout_s=120)
    assert done.returncode != 0
    assert "is the loopback address on n2" in done.stdout
