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
    # Five rules, and the training once more.
    assert pipeline_output.count("has been submitted with SLURM jobid") == 6


def test_the_training_was_stopped_as_at_its_time_limit_and_its_next_job_resumed(pipeline_output, results):
    logs = sorted((results / "pipeline/slurm_logs/rule_train_agent").rglob("*.log"), key=lambda path: int(path.stem))
    first, second = (path.read_text() for path in logs)
    assert "was interrupted at" in first
    assert "resuming" not in first
    assert f"resuming results/{EXPERIMENT}/cluster-1 at" in second


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
    assert run["placement"] == {
        "world_size": 4,
        "hosts": ["n1", "n2"],
        "job_id": info["job_id"],
        "launcher": "slurm",
        "groups": [[0, 1], [2, 3]],
        "exchange": "grouped_all_gather",
    }
    page = (results / "report/index.html").read_text()
    row = ("n1, n2", "0 1 | 2 3", "grouped_all_gather", "slurm", info["job_id"])
    assert "".join(f"<td>{cell}</td>" for cell in row) in page


def test_nsight_systems_ran_in_the_image_and_its_ranges_are_in_the_report(nsight, results, pipeline_output):
    if nsight.missing:
        pytest.skip(nsight.missing)
    (run,) = json.loads((results / "report/report.json").read_text())["runs"]
    (profile,) = run["profiles"]
    assert profile["tool"] == "nsys"
    counts = {row["name"].removeprefix("seed-hpc:"): row["count"] for row in profile["ranges"]}
    assert {"environment", "inference", "learner"} <= counts.keys()
    assert counts["learner"] == 3  # the window's iterations
    page = (results / "report/index.html").read_text()
    table = page[page.index("<caption>NVTX ranges") :].partition("</table>")[0]
    assert "environment</td>" in table


def test_a_second_call_has_nothing_to_do(pipeline_output, snakemake):
    assert "Nothing to be done" in snakemake()
