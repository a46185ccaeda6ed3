# SPDX-License-Identifier: Apache-2.0
"""The adapters of workflow/scripts on a stand-in for Snakemake's object: what they pass on, and how they fail."""

import json
import os
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from checkout import ROOT
from synthetic_run import write_run

from seed_hpc import pipeline
from seed_hpc.errors import RunFailedError

SCRIPTS = ROOT / "workflow" / "scripts"


def run_script(name, **parts):
    snakemake = SimpleNamespace(**parts)
    runpy.run_path(str(SCRIPTS / name), init_globals={"snakemake": snakemake})


def report_parts(tmp_path, run):
    output = SimpleNamespace(page=str(tmp_path / "report" / "index.html"))
    inputs = SimpleNamespace(trained=[str(run / "training.json")], kernels=[], architectures=[])
    (tmp_path / "benchmarks").mkdir(exist_ok=True)
    params = SimpleNamespace(benchmarks=str(tmp_path / "benchmarks"), title="A title")
    return {"input": inputs, "output": output, "params": params, "log": [str(tmp_path / "log")]}


def test_write_report(tmp_path, capsys):
    run_script("write_report.py", **report_parts(tmp_path, write_run(tmp_path)))
    assert json.loads((tmp_path / "report" / "report.json").read_text())["title"] == "A title"
    assert "clearly above the random policy" in capsys.readouterr().err


def test_write_report_says_in_one_sentence_what_is_wrong(tmp_path):
    with pytest.raises(SystemExit, match=r"write_report: .* is no folder"):
        run_script("write_report.py", **report_parts(tmp_path, tmp_path / "none"))


def training_parts(tmp_path):
    return {
        "wildcards": SimpleNamespace(experiment="demo", run_id="seed1-abc"),
        "input": SimpleNamespace(experiment="config/experiments/demo.yaml"),
        "output": SimpleNamespace(record=str(tmp_path / "results" / "demo" / "seed1-abc" / "training.json")),
        "params": SimpleNamespace(
            overrides=["training.seed=1"],
            digest="abc",
            launcher="srun -n 2",
            python="/opt/venv/bin/python",
            libraries="results/kernels/cpu:results/kernels",
        ),
        "log": [str(tmp_path / "log")],
    }


def test_train_agent(tmp_path, monkeypatch):
    seen = {}

    def train(run, results, log, *, launcher, python):
        seen.update(run=run, results=results, log=log, launcher=launcher, python=python)
        return {"status": "finished"}

    monkeypatch.setattr(pipeline, "train", train)
    monkeypatch.setenv("SEED_HPC_LIBRARY_DIR", "elsewhere")
    run_script("train_agent.py", **training_parts(tmp_path))
    assert (seen["run"].experiment, seen["run"].run_id, seen["launcher"]) == ("demo", "seed1-abc", "srun -n 2")
    assert seen["python"] == "/opt/venv/bin/python"
    assert seen["results"] == tmp_path / "results"
    # Absolute: a training in another working directory finds them, too.
    kernels = Path.cwd() / "results" / "kernels"
    assert os.environ["SEED_HPC_LIBRARY_DIR"].split(":") == [str(kernels / "cpu"), str(kernels)]
    record = tmp_path / "results" / "demo" / "seed1-abc" / "training.json"
    assert json.loads(record.read_text()) == {"status": "finished"}


def test_train_agent_leaves_no_record_of_a_run_that_stopped(tmp_path, monkeypatch):
    def train(*_, **__):
        raise RunFailedError("interrupted at 400 frames")

    monkeypatch.setattr(pipeline, "train", train)
    monkeypatch.setenv("SEED_HPC_LIBRARY_DIR", "elsewhere")
    with pytest.raises(SystemExit, match="train_agent: interrupted at 400 frames"):
        run_script("train_agent.py", **training_parts(tmp_path))
    assert not (tmp_path / "results").exists()
