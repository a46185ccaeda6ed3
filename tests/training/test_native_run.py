# SPDX-License-Identifier: Apache-2.0
"""Runs on environments that are no Atari games: continuous and discrete, resumed bit for bit, evaluated."""

import json

import pytest
import yaml

from seed_hpc import cli
from seed_hpc.config import load_experiment
from seed_hpc.errors import UserError
from seed_hpc.training.environments import make_environments
from seed_hpc.training.loop import choose_device

TINY = {
    "agent": {"name": "ppo", "minibatches": 2, "epochs": 2},
    "env": {"num_envs": 8, "num_threads": 1, "frameskip": 1, "reward_clipping": False},
    "model": {"encoder": "mlp", "hidden_size": 16},
    "training": {
        "unroll_length": 16,
        "num_threads": 1,
        "device": "cpu",
        "tensorboard": False,
        "sample_hz": 0,
        "log_interval_frames": 512,
        "checkpoint_interval_s": 1000,
        "total_frames": 2048,
    },
    "evaluation": {"episodes": 4, "random_episodes": 4},
}


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """Returns a function that writes the tiny experiment of a game and returns its file."""
    monkeypatch.chdir(tmp_path)

    def write(game, **env):
        path = tmp_path / f"{game}.yaml"
        path.write_text(yaml.safe_dump({**TINY, "env": {**TINY["env"], "game": game, **env}}))
        return path

    return write


def train(*arguments):
    assert cli.main(["train", *map(str, arguments)]) == 0


def lines(run):
    """The log lines without times and rates."""
    keep = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        keep.append({key: entry[key] for key in ("frames", "episodes", "mean_return", "loss", "entropy")})
    return keep


@pytest.mark.parametrize("game", ["ball", "order_book"])
def test_a_resumed_run_equals_an_uninterrupted_one(experiment, tmp_path, game):
    path = experiment(game)
    train("--config", path, "--run-id", "whole")
    train("--config", path, "--run-id", "parts", "training.total_frames=1024")
    train("--resume", tmp_path / "results" / game / "parts", "training.total_frames=2048")
    whole, parts = (lines(tmp_path / "results" / game / name) for name in ("whole", "parts"))
    assert len(whole) == 4
    assert whole == parts


def test_evaluation_beside_the_reference_policy(experiment, tmp_path, capsys):
    path = experiment("order_book", options={"horizon": 10.0, "parent": 8.0})
    train("--config", path, "--run-id", "a", "training.total_frames=512")
    run = tmp_path / "results" / "order_book" / "a"
    code = cli.main(["evaluate", str(run), "--require-better-than-reference"])
    result = json.loads((run / "evaluation.json").read_text())
    reference = result["reference"]
    assert reference["episodes"] == result["episodes"] == 4
    assert reference["mean_steps"] <= 10
    gains = [mine - theirs for mine, theirs in zip(result["returns"], reference["returns"], strict=True)]
    assert reference["gain"]["mean"] == pytest.approx(sum(gains) / 4)
    low, high = reference["gain"]["ci95"]
    assert low <= reference["gain"]["mean"] <= high
    assert code == (0 if low > 0 else 1)
    assert not (run / "episode.gif").exists()


def test_an_environment_without_a_reference_policy_has_none(experiment, tmp_path):
    train("--config", experiment("ball"), "--run-id", "a", "training.total_frames=256")
    run = tmp_path / "results" / "ball" / "a"
    assert cli.main(["evaluate", str(run), "--require-better-than-reference"]) == 1
    assert json.loads((run / "evaluation.json").read_text())["reference"] is None


@pytest.mark.parametrize(
    ("game", "overrides", "message"),
    [
        ("ball", ["env.frameskip=4"], "set env.frameskip=1"),
        ("ball", ["env.options.gravty=1"], "did you mean 'gravity'"),
        ("pong", ["env.options.gravity=1"], "belong to other environments"),
    ],
)
def test_options_that_do_not_belong(experiment, game, overrides, message):
    config = load_experiment(str(experiment(game)), overrides)
    with pytest.raises(UserError, match=message):
        make_environments(config.env, num_envs=1, device=choose_device("cpu"))


@pytest.mark.parametrize("overrides", [["env.options=3"], ["env.options.gravity=much"]])
def test_options_of_the_wrong_type(experiment, overrides):
    with pytest.raises(UserError, match=r"env\.options.* is not allowed"):
        load_experiment(str(experiment("ball")), overrides)
