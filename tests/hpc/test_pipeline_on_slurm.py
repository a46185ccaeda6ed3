# SPDX-License-Identifier: Apache-2.0
"""The pipeline through profiles/slurm in the image: build it -> kernels -> 2 nodes x 2 ranks -> evaluate -> report."""

import json

import pytest
from conftest import EXPERIMENT


@pytest.fixture
def results(project, pipeline_output):
    return project / "results"


def test_every_stage_was_a_job(pipeline_output):
    for rule in ("build_kernels_cpu", "train_agent", "evaluate_agent", "profile_run", "write_report"):
        assert f"(Rule: {rule})" in pipeline_output
    assert pipeline_output.count("has been submitted with SLURM jobid") == 5


def test_the_training_ran_on_two_nodes_with_two_ranks_each(results):
    info = json.loads((results / EXPERIMENT / "cluster-1" / "run.json").read_text())
    assert info["status"] == "finished"
    assert (info["launcher"], info["world_size"], info["hosts"]) == ("slurm", 4, ["n1", "n2"])
    assert info["groups"] == [[0, 1], [2, 3]]
    assert info["gradient_exchange"] == "grouped_all_gather"
    assert info["frames"] >= 48000


def test_the_agent_was_evaluated(results):
    evaluation = json.loads((results / EXPERIMENT / "cluster-1" / "evaluation.json").read_text())
    assert len(evaluation["returns"]) == 2


def test_the_report_shows_jobs_nodes_and_ranks(results):
    info = json.loads((results / EXPERIMENT / "cluster-1" / "run.json").read_text())
    (run,) = json.loads((results / "report/report.json").read_text())["runs"]
    assert run["placement"] == {"world_size": 4, "hosts": ["n1", "n2"], "job_id": info["job_id"]}
    page = (results / "report/index.html").read_text()
    assert f"<td>n1, n2</td><td>{info['job_id']}</td>" in page


def test_a_second_call_has_nothing_to_do(pipeline_output, snakemake):
    assert "Nothing to be done" in snakemake()
