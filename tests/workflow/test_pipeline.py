# SPDX-License-Identifier: Apache-2.0
"""The pipeline's configuration, the runs that follow from it, and one training job with a stand-in for the training."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from seed_hpc import pipeline
from seed_hpc.errors import RunFailedError, UserError

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pipeline.read_yaml(ROOT / "workflow" / "schemas" / "config.schema.yaml")


def check(**config):
    return pipeline.check_config({"experiments": [{"name": "demo"}], **config}, SCHEMA)


# ---- configuration --------------------------------------------------------------------------------------------------


def test_defaults_are_filled_in():
    config = check()
    assert config["experiments"] == [{"name": "demo", "seeds": [1], "overrides": [], "run_id": None}]
    assert config["kernels"] == {"cuda_architectures": [], "allow": {}}
    assert config["profile"]["tool"] == "torch"
    assert config["results"] == "results"


@pytest.mark.parametrize("name", ["config.yaml", "ci.yaml"])
def test_the_configurations_of_the_repository_are_valid(name):
    pipeline.check_config(pipeline.read_yaml(ROOT / "config" / name), SCHEMA)


def test_every_key_of_the_schema_has_a_description():
    def walk(schema, path):
        for name, inner in schema.get("properties", {}).items():
            assert inner.get("description"), f"{path}.{name}"
            walk(inner, f"{path}.{name}")
            walk(inner.get("items", {}), f"{path}.{name}[]")

    walk(SCHEMA, "config")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            {"experiment": []},
            "unknown key 'experiment' (did you mean 'experiments'?); known here: experiments, container",
        ),
        (
            {"kernels": {"cuda_architecture": ["90"]}},
            "unknown key 'kernels.cuda_architecture' (did you mean 'cuda_arch",
        ),
        ({"kernels": {"cuda_architectures": ["91"]}}, "kernels.cuda_architectures[0]=91 is not allowed"),
        ({"kernels": {"cuda_architectures": [90]}}, "kernels.cuda_architectures[0]=90 is not allowed"),
        ({"experiments": [{"seeds": [1]}]}, "experiments[0].name is missing: name of a file"),
        ({"experiments": [{"name": "demo", "seed": 1}]}, "unknown key 'experiments[0].seed' (did you mean 'seeds'?)"),
        ({"experiments": [{"name": "demo", "seeds": 1}]}, "experiments[0].seeds=1 is not allowed"),
        ({"experiments": [{"name": "demo", "seeds": [-1]}]}, "experiments[0].seeds[0]=-1 is not allowed"),
        ({"experiments": [{"name": "demo", "overrides": ["lr=1"]}]}, "write section.key=value"),
        ({"experiments": []}, "experiments=[] is not allowed"),
        (
            {"profile": {"tool": "nsyss"}},
            "profile.tool=nsyss is not allowed (did you mean 'nsys'?): choose torch, nsys",
        ),
        ({"profile": {"window": "5"}}, "profile.window='5' is not allowed"),
        ({"profile": None}, "profile=None is not allowed"),
        ({"results": "my results"}, "results='my results' is not allowed"),
    ],
)
def test_a_fault_is_one_sentence_that_says_what_to_type(config, says):
    with pytest.raises(UserError) as error:
        check(**config)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_yaml_that_does_not_parse_names_file_and_line(tmp_path):
    (tmp_path / "x.yaml").write_text("a: 1\nb: [1\n")
    with pytest.raises(UserError, match=r"x\.yaml is no valid YAML, line 3"):
        pipeline.read_yaml(tmp_path / "x.yaml")
    with pytest.raises(UserError, match="does not exist"):
        pipeline.read_yaml(tmp_path / "none.yaml")


# ---- runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "config" / "experiments"
    folder.mkdir(parents=True)
    (folder / "demo.yaml").write_text("agent: {name: vtrace}\ntraining: {total_frames: 1000}\n")
    return tmp_path


def planned(root, **entry):
    return pipeline.planned_runs(check(experiments=[{"name": "demo", **entry}]), root)


def test_a_run_is_named_after_what_it_computes(root):
    first, second = planned(root, seeds=[1, 7])
    assert first.run_id.startswith("seed1-")
    assert second.run_id.startswith("seed7-")
    assert first.config == Path("config/experiments/demo.yaml")
    assert first.overrides == ("training.seed=1",)
    file = root / "config" / "experiments" / "demo.yaml"
    file.write_text("# a comment\n" + file.read_text())
    assert planned(root)[0].run_id == first.run_id
    file.write_text(file.read_text().replace("1000", "2000"))
    changed = planned(root)[0].run_id
    assert changed != first.run_id
    assert planned(root, overrides=["env.num_envs=8"])[0].run_id not in (changed, first.run_id)


def test_a_chosen_run_id_keeps_its_name(root):
    names = [run.run_id for run in planned(root, run_id="baseline", seeds=[1, 2])]
    assert names == ["baseline-1", "baseline-2"]


def test_a_profiled_run_lasts_until_its_window_has_passed(root):
    (run,) = planned(root, overrides=["env.num_envs=8", "env.frameskip=4", "training.unroll_length=10"])
    assert pipeline.profile_frames(run, root, "5:10") == (5 + 10 + 2) * 8 * 4 * 10


def test_an_unknown_experiment_names_the_nearest(root):
    with pytest.raises(UserError, match=r"did you mean 'demo'\?"):
        pipeline.planned_runs(check(experiments=[{"name": "demoo"}]), root)


def test_one_run_asked_for_twice(root):
    with pytest.raises(UserError, match="is asked for twice"):
        pipeline.planned_runs(check(experiments=[{"name": "demo"}, {"name": "demo"}]), root)


def test_a_file_that_names_itself_otherwise(root):
    (root / "config" / "experiments" / "demo.yaml").write_text("name: other\n")
    with pytest.raises(UserError, match="names itself 'other'"):
        planned(root)


def test_an_experiment_that_is_no_mapping(root):
    (root / "config" / "experiments" / "demo.yaml").write_text("- 1\n")
    with pytest.raises(UserError, match="holds no mapping"):
        planned(root)


# ---- one training job -----------------------------------------------------------------------------------------------

# Stands in for `python -m seed_hpc.cli train`: does what the words in MODE say, in the run directory that it makes.
TRAINING = """
import json, os, signal, sys, time
from pathlib import Path
arguments = sys.argv[1:]
value = lambda name: arguments[arguments.index(name) + 1]
run = Path(value("--results")) / Path(value("--config")).stem / value("--run-id")
mode = os.environ["MODE"]
resumed = (run / "run.json").exists()
if not resumed:
    run.mkdir(parents=True)  # fails where the folder exists, as the real one does
(run / "arguments.json").write_text(json.dumps(arguments))
def end(status, frames, code=0):
    print(f"status {status}", flush=True)
    (run / "run.json").write_text(json.dumps({"status": status, "frames": frames, "train_seconds": 1.5, "commit": "c"}))
    sys.exit(code)
print("resumed" if resumed else "started", flush=True)
if mode == "wait":
    (run / "run.json").write_text(json.dumps({"status": "running"}))
    signal.signal(signal.SIGTERM, lambda *_: end("interrupted", 500))
    signal.signal(signal.SIGINT, lambda *_: end("interrupted", 600))
    print("waiting", flush=True)
    time.sleep(60)
end(*{"finish": ("finished", 1000), "interrupt": ("interrupted", 400), "fail": ("failed", 10, 1)}[mode])
"""


@pytest.fixture
def job(root, monkeypatch):
    """Runs one training job; `job("finish")`."""
    python = root / "python"
    (root / "training.py").write_text(TRAINING)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {root}/training.py "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(pipeline, "_refuse_other_config", lambda *_: None)
    run = planned(root)[0]

    def start(mode, **options):
        monkeypatch.setenv("MODE", mode)
        return pipeline.train(run, root / "results", root / "train.log", python=str(python), **options)

    start.directory = root / "results" / "demo" / run.run_id
    start.log = root / "train.log"
    start.run = run
    return start


def test_a_job_trains_and_returns_the_record(job):
    job.directory.mkdir(parents=True)  # as a workflow manager does for its outputs
    record = job("finish")
    assert (record["status"], record["frames"], record["train_seconds"]) == ("finished", 1000, 1.5)
    assert record["digest"] == job.run.digest
    assert job.log.read_text() == "started\nstatus finished\n"
    arguments = json.loads((job.directory / "arguments.json").read_text())
    assert arguments[:3] == ["-m", "seed_hpc.cli", "train"]
    assert arguments[-2:] == ["--or-resume", "training.seed=1"]


def test_a_finished_run_is_not_trained_again(job):
    job("finish")
    (job.directory / "arguments.json").unlink()
    assert job("fail")["frames"] == 1000
    assert not (job.directory / "arguments.json").exists()


def test_an_interrupted_run_fails_the_job_and_resumes_at_the_next(job):
    with pytest.raises(RunFailedError, match="interrupted at 400 frames: run snakemake again, it resumes there"):
        job("interrupt")
    assert job("finish")["status"] == "finished"
    assert job.log.read_text() == "started\nstatus interrupted\nresumed\nstatus finished\n"


def test_a_failed_run_names_its_log(job):
    with pytest.raises(RunFailedError, match=r"exit code 1 and status failed: see .*train\.log"):
        job("fail")


def test_a_launcher_is_put_before_the_command(job):
    job("finish", launcher="env -u NOTHING SEEN=1")
    assert pipeline.training_command(job.run, Path("r"), "srun -N 2", "python")[:4] == ["srun", "-N", "2", "python"]


@pytest.mark.parametrize(("number", "frames"), [(signal.SIGTERM, 500), (signal.SIGUSR1, None)])
def test_a_signal_is_passed_on_and_the_training_may_end_in_its_own_time(job, number, frames):
    """The job's process gets the signal, the training ends by it; one that it does not handle ends it at once."""

    def send():
        deadline = time.monotonic() + 20
        while "waiting" not in (job.log.read_text() if job.log.exists() else "") and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(RunFailedError) as error:
        job("wait")
    sender.join()
    assert ("interrupted at 500 frames" if frames else "exit code -10") in str(error.value)


def test_two_jobs_never_train_one_run(job):
    with (
        pipeline._only_one(job.directory.parent, job.run.run_id),
        pytest.raises(UserError, match="another process is training"),
    ):
        job("finish")
    assert job("finish")["status"] == "finished"


def test_a_results_folder_that_cannot_be_written(job, root):
    (root / "results").write_text("a file")
    with pytest.raises(UserError, match="cannot be written"):
        job("finish")


def test_ctrl_c_reaches_the_training_once_and_its_checkpoint_is_waited_for(root):
    """As on a terminal: the signal goes to the whole process group."""
    (root / "training.py").write_text(TRAINING)
    program = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from seed_hpc.pipeline import run_logged
        command = [{sys.executable!r}, {str(root / "training.py")!r}, "--results", {str(root / "results")!r}]
        sys.exit(run_logged([*command, "--config", "demo.yaml", "--run-id", "x"], Path({str(root / "log")!r})))
        """
    )
    environment = {**os.environ, "MODE": "wait", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    assert any("waiting" in line for line in process.stderr)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) == 0
    assert "Traceback" not in process.stderr.read()
    assert json.loads((root / "results" / "demo" / "x" / "run.json").read_text())["frames"] == 600


@pytest.mark.parametrize("torch", [True, False], ids=["", "no torch on this host"])
def test_a_directory_made_with_other_settings_is_never_touched(root, monkeypatch, torch):
    monkeypatch.chdir(root)
    if not torch:
        monkeypatch.setattr(pipeline, "find_spec", lambda _: None)
        monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails
        monkeypatch.setitem(sys.modules, "seed_hpc.agents", None)
    (run,) = planned(root, run_id="baseline")
    directory = root / "results" / "demo" / "baseline-1"
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps({"status": "interrupted"}))
    (directory / "config.yaml").write_text("agent: {name: vtrace}\ntraining: {total_frames: 999, seed: 1}\n")
    with pytest.raises(UserError, match=r"training\.total_frames was 999, is 1000 now"):
        pipeline.train(run, root / "results", root / "log")
    assert sorted(path.name for path in directory.iterdir()) == ["config.yaml", "run.json"]
    (directory / "config.yaml").write_text("agent: {name: vtrace}\ntraining: {total_frames: 1000, seed: 1}\n")
    pipeline._refuse_other_config(run, directory)
