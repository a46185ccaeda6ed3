# SPDX-License-Identifier: Apache-2.0
"""The Snakemake files themselves: lint, format, dry run, a run up to the report on synthetic results, wrong input."""

import json
import os
import subprocess
import sys
import time

import pytest
from checkout import ROOT, make_checkout, runs_of, snakemake
from synthetic_run import write_profile, write_run

from seed_hpc import pipeline

EXPERIMENT = "breakout_vtrace_demo"


@pytest.fixture
def checkout(tmp_path):
    return make_checkout(tmp_path)


def put_results(folder, evaluation_mean=-4.0):
    """Makes everything but the report, as the rules before it would."""
    results = folder / "results"
    for run in runs_of(folder):
        directory = write_run(results, experiment=run.experiment, run_id=run.run_id, final_return=evaluation_mean)
        (directory / "training.json").write_text(json.dumps({"status": "finished"}))
        before = time.time() - 1  # older than what is made from it, newer than the workflow's scripts
        os.utime(directory / "training.json", (before, before))
        write_profile(directory)
    for name in ("cpu", "sm_80", "sm_90"):
        record = {"backend": "cpu" if name == "cpu" else "cuda", "arch": name.removeprefix("sm_"), "kernels": []}
        record |= dict.fromkeys(("library", "digest", "bytes", "compiler", "build_seconds", "commit"))
        record |= {"status": "not_built", "reason": "no nvcc was found"}
        (results / "kernels" / name).mkdir(parents=True)
        (results / "kernels" / name / "kernels.json").write_text(json.dumps(record))
        (results / "kernels" / name / ("libseed_cpu.so" if name == "cpu" else "resources.json")).touch()
    (results / "pipeline" / "benchmarks").mkdir(parents=True)


def test_lint_finds_nothing(checkout):
    assert "good condition" in snakemake(checkout, "--lint")


def test_the_format_is_that_of_snakefmt():
    files = ["Snakefile", *map(str, (ROOT / "workflow" / "rules").glob("*.smk"))]
    done = subprocess.run(
        [sys.executable, "-m", "snakefmt", "--check", "--line-length", "120", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_a_dry_run_on_a_fresh_checkout_lists_every_stage(checkout):
    output = snakemake(checkout, "--profile", "profiles/local", "--dry-run")
    for rule in (
        "build_kernels_cpu",
        "build_kernels_cuda",
        "train_agent",
        "evaluate_agent",
        "profile_run",
        "write_report",
    ):
        assert rule in output, rule
    assert not (checkout / "results").exists()


def test_the_variant_for_continuous_integration(checkout):
    output = snakemake(checkout, "--profile", "profiles/local", "--configfile", "config/ci.yaml", "--dry-run")
    assert "results/ci/report/index.html" in output
    assert "build_kernels_cuda" not in output
    assert "training.total_frames=40000" in output


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """A checkout in which Snakemake has written the report of synthetic results, and what it printed."""
    folder = make_checkout(tmp_path_factory.mktemp("reported"))
    put_results(folder)
    return folder, snakemake(folder, "--profile", "profiles/local")


def test_the_report_is_written_once_and_is_then_up_to_date(reported):
    folder, output = reported
    assert "clearly above the random policy" in output
    document = json.loads((folder / "results" / "report" / "report.json").read_text())
    assert [run["experiment"] for run in document["runs"]] == [EXPERIMENT]
    assert [record["arch"] for record in document["kernels"]] == ["cpu", "80", "90"]
    assert "Nothing to be done" in snakemake(folder, "--profile", "profiles/local")


def test_snakemakes_own_report_holds_the_page(reported, tmp_path):
    folder, _ = reported
    snakemake(folder, "--report", str(tmp_path / "report.zip"))
    assert (tmp_path / "report.zip").stat().st_size > 1_000_000


def test_another_title_writes_only_the_report_again(reported):
    folder, _ = reported
    output = snakemake(folder, "--profile", "profiles/local", "--config", "report={title: Another}", "--dry-run")
    assert "Writing the report" in output
    assert "Training" not in output


def test_a_changed_experiment_is_a_new_run_beside_the_old_one(reported):
    folder, _ = reported
    (old,) = runs_of(folder)
    experiment = folder / "config" / "experiments" / f"{EXPERIMENT}.yaml"
    text = experiment.read_text()
    try:
        experiment.write_text("# a comment changes nothing\n" + text)
        assert "Nothing to be done" in snakemake(folder, "--profile", "profiles/local", "--dry-run")
        experiment.write_text(text.replace("num_envs: 32", "num_envs: 16"))
        (new,) = runs_of(folder)
        output = snakemake(folder, "--profile", "profiles/local", "--dry-run")
    finally:
        experiment.write_text(text)
    assert new.run_id != old.run_id
    assert f"results/{EXPERIMENT}/{new.run_id}/training.json" in output
    assert f"{old.run_id}/training.json" not in output


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("kernel: {}", "unknown key 'kernel' (did you mean 'kernels'?)"),
        ("profile: {tool: perf}", "profile.tool=perf is not allowed"),
        ("experiments: [{name: pong_vtrace_dem}]", "did you mean 'pong_vtrace_demo'?"),
        ("experiments: [{name: pong_vtrace_demo, overrides: [env.num_env=4]}]", "unknown key 'env.num_env'"),
        ("experiments: [{name: pong_vtrace_demo, overrides: [env.num_envs=0]}]", "env.num_envs=0 is not allowed"),
    ],
)
def test_a_wrong_configuration_is_one_sentence_before_the_first_job(checkout, line, says):
    config = pipeline.read_yaml(checkout / "config" / "config.yaml") | pipeline.yaml.safe_load(line)
    (checkout / "config" / "config.yaml").write_text(pipeline.yaml.safe_dump(config))
    output = snakemake(checkout, "--profile", "profiles/local", expected=1)
    assert says in output
    assert "Traceback" not in output
    assert not (checkout / "results").exists()


def test_every_rule_says_what_it_needs():
    """The house rules for a rule: log, benchmark, threads, resources and a message."""
    for path in (ROOT / "workflow" / "rules").glob("*.smk"):
        for text in path.read_text().split("\nrule ")[1:]:
            for part in ("input:", "output:", "log:", "benchmark:", "threads:", "resources:", "message:"):
                assert f"    {part}" in text, f"{path.name}: {text.splitlines()[0]} {part}"
