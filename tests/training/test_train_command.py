# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc train`: what a user types, and what a wrong word leads to: one sentence, exit code 2, nothing written."""

import json
import os

import pytest
from doubles.catch_env import CatchEnvs

from seed_hpc import cli
from seed_hpc.errors import UserError
from seed_hpc.training import loop


@pytest.fixture
def command(catch, tmp_path, monkeypatch):
    """Returns a function that runs `seed-hpc train --config catch ... ` with Catch as its environments."""

    def make(config, *, num_envs, device, **changes):
        if config.game != "catch":
            raise UserError(f"unknown game '{config.game}'")
        return CatchEnvs(num_envs)

    monkeypatch.setattr(loop, "make_environments", make)
    results = tmp_path / "results"

    def run(*arguments, config=tmp_path / "catch.yaml"):
        return cli.main(["train", "--config", str(config), "--results", str(results), *arguments])

    run.results = results
    return run


def test_options_then_overrides(command):
    assert command("--run-id", "one", "training.total_frames=800") == 0
    info = json.loads((command.results / "catch" / "one" / "run.json").read_text())
    assert info["run_id"] == "one"
    assert info["status"] == "finished"
    assert info["frames"] == 800
    assert info["game"] == "catch"
    assert {"torch", "python", "seed_hpc"} <= info["versions"].keys()
    assert {"cpu", "cpu_count", "gpus", "memory_bytes"} <= info["hardware"].keys()


def test_two_unnamed_runs_have_two_names(command):
    assert command("training.total_frames=80") == command("training.total_frames=80") == 0
    assert len(list((command.results / "catch").iterdir())) == 2


def test_an_existing_run_is_refused_and_untouched(command, capsys):
    assert command("--run-id", "one", "training.total_frames=80") == 0
    path = command.results / "catch" / "one"
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert command("--run-id", "one", "training.total_frames=80") == 2
    message = capsys.readouterr().err
    assert "exists and is never overwritten" in message
    assert "Traceback" not in message
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert [entry.name for entry in path.parent.iterdir()] == ["one"]


def test_a_finished_run_goes_on_only_with_more_frames(command, capsys):
    assert command("--run-id", "one", "training.total_frames=800") == 0
    path = str(command.results / "catch" / "one")
    assert cli.main(["train", "--resume", path]) == 2
    assert "is finished" in capsys.readouterr().err
    assert cli.main(["train", "--resume", path, "training.total_frames=1600"]) == 0
    assert json.loads((command.results / "catch" / "one" / "run.json").read_text())["frames"] == 1600


@pytest.mark.parametrize("override", ["model.hidden_size=33", "env.num_envs=3"])
def test_an_override_that_does_not_fit_the_checkpoint_leaves_the_run_as_it_was(command, capsys, override):
    assert command("--run-id", "one", "training.total_frames=800") == 0
    path = command.results / "catch" / "one"
    before = (path / "config.yaml").read_bytes()
    assert cli.main(["train", "--resume", str(path), "training.total_frames=1600", override]) == 2
    assert "does not fit this experiment" in capsys.readouterr().err
    assert (path / "config.yaml").read_bytes() == before
    assert cli.main(["train", "--resume", str(path), "training.total_frames=1600"]) == 0


@pytest.mark.parametrize("content", ["[]", "{}", '"x"', "{", '{"status": "finished"}'])
def test_a_damaged_record_of_a_run_is_one_sentence(command, content, capsys):
    assert command("--run-id", "one", "training.total_frames=800") == 0
    path = command.results / "catch" / "one"
    (path / "run.json").write_text(content)
    capsys.readouterr()
    assert cli.main(["train", "--resume", str(path)]) == 2
    assert str(path / "run.json") in capsys.readouterr().err
    assert (path / "run.json").read_text() == content


def test_a_rollout_beyond_memory_is_one_sentence(command, capsys):
    assert command("--run-id", "large", f"training.unroll_length={2**50}") == 2
    assert "lower training.unroll_length or env.num_envs" in capsys.readouterr().err


def test_or_resume_starts_then_continues(command):
    assert command("--run-id", "one", "--or-resume", "training.total_frames=800") == 0
    path = command.results / "catch" / "one"
    info = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**info, "status": "interrupted"}))
    assert command("--run-id", "one", "--or-resume", "training.total_frames=800") == 0
    assert json.loads((path / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["env.num_envs=0"], "env.num_envs=0 is not allowed"),
        (["env.game=chess"], "unknown game 'chess'"),
        (["training.total_frmes=1"], "did you mean 'total_frames'?"),
        (["--run-id", "a/b"], "run_id 'a/b' is not allowed"),
        (["--run-id", ".."], "run_id '..' is not allowed"),
        (["--run-id", ""], "run_id '' is not allowed"),
        (["training.device=gpu"], "training.device=gpu is not a device"),
        (["training.precision=fp16"], "needs a CUDA device"),
        (["optimizer.backend=apex"], "needs a CUDA device"),
        (["model.encoder=nature"], "model.encoder=mlp"),
    ],
)
def test_wrong_usage_is_one_sentence_and_leaves_nothing(command, capsys, arguments, message):
    assert command(*arguments) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
    assert not command.results.exists()


def test_missing_experiment(command, capsys):
    assert command(config="nothing.yaml") == 2
    assert "nothing.yaml does not exist" in capsys.readouterr().err


def test_results_folder_that_cannot_be_written(command, capsys):
    command.results.write_text("a file, not a folder")
    assert command("training.total_frames=80") == 2
    assert "cannot be written" in capsys.readouterr().err
    command.results.unlink()
    if os.geteuid() != 0:  # root may write anywhere
        command.results.mkdir(mode=0o555)
        assert command("training.total_frames=80") == 2
        assert "Permission denied" in capsys.readouterr().err
        assert list(command.results.iterdir()) == []


def test_options_are_listed(capsys):
    assert cli.main(["train", "--options"]) == 0
    printed = capsys.readouterr().out
    assert "agent.discount" in printed
    assert "training.total_frames" in printed


@pytest.mark.parametrize("arguments", [[], ["--config", "x", "--resume", "y"]])
def test_config_or_resume(arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *arguments])
    assert stop.value.code == 2
