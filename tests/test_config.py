# SPDX-License-Identifier: Apache-2.0
"""Experiments: defaults, overrides, types, and errors that name what is wrong."""

from pathlib import Path

import pytest

from seed_hpc.config import default_experiment, describe_options, load_experiment, load_resolved
from seed_hpc.errors import UserError

EXPERIMENTS = sorted((Path(__file__).parents[1] / "config" / "experiments").glob("*.yaml"))


@pytest.fixture
def experiment_file(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text("agent: {name: vtrace, discount: 0.98}\nenv: {num_envs: 4}\n")
    return str(path)


def test_defaults_file_and_overrides_in_that_order(experiment_file):
    experiment = load_experiment(experiment_file, ["env.num_envs=8", "training.total_frames=1e6"])
    assert experiment.name == "tiny"
    assert experiment.agent.discount == 0.98
    assert experiment.agent.baseline_cost == 0.5
    assert experiment.env.num_envs == 8
    assert experiment.training.total_frames == 1_000_000
    assert isinstance(experiment.training.total_frames, int)


def test_saved_experiment_reads_back_equal(experiment_file, tmp_path):
    experiment = load_experiment(experiment_file, ["optimizer.learning_rate=3e-4", "env.game=breakout"])
    experiment.save(tmp_path / "config.yaml")
    assert load_resolved(tmp_path / "config.yaml") == experiment


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.total_frame=1", r"unknown key 'training.total_frame' \(did you mean 'total_frames'\?\)"),
        ("trainig.total_frames=1", r"unknown section 'trainig' \(did you mean 'training'\?\)"),
        ("agent.discont=1", r"unknown key 'agent.discont' \(did you mean 'discount'\?\)"),
        ("agent.name=vtrac", r"unknown agent 'vtrac' \(did you mean 'vtrace'\?\)"),
        ("env.num_envs=0", r"env.num_envs=0 is not allowed: give a number of at least 1"),
        ("env.num_envs=2.5", r"env.num_envs=2.5 is not allowed: give a whole number"),
        ("env.num_envs=many", r"env.num_envs=many is not allowed: give a whole number"),
        ("env.maxpool=3", r"env.maxpool=3 is not allowed: give true or false"),
        ("model.encoder=natur", r"model.encoder=natur is not allowed \(did you mean 'nature'\?\): choose"),
        ("optimizer.learning_rate=0", r"optimizer.learning_rate=0.0 must be above zero"),
        ("agent.minibatches=5", r"agent.minibatches=5 is more than env.num_envs=4 can be split into: lower it"),
        ("env.repeat_action_probability=1", r"give a probability in \[0, 1\)"),
        ("total_frames=1", r"'total_frames=1' is not an override: write section.key=value"),
        ("training.total_frames", r"is not an override"),
        ("env.game=[1,2", r"the value of 'env.game=\[1,2' is not valid YAML"),
    ],
)
def test_what_is_wrong_is_named(experiment_file, override, message):
    with pytest.raises(UserError, match=message):
        load_experiment(experiment_file, [override])


def test_minibatches_are_steps_or_environments():
    """PPO with 2 environments and unrolls of 8 steps: 16 steps to split, with an LSTM 2 unrolls."""
    overrides = ["env.num_envs=2", "training.unroll_length=8", "agent.minibatches=16"]
    assert default_experiment("ppo", overrides).fewest_envs == 2
    for change in ("agent.minibatches=17", "model.core=lstm"):
        with pytest.raises(UserError, match=r"is more than env.num_envs=2 can be split into"):
            default_experiment("ppo", [*overrides, change])


def test_a_replay_does_not_take_lives_for_episodes():
    with pytest.raises(UserError, match=r"env.life_loss_info=true does not go with agent.name=apex_dqn"):
        default_experiment("apex_dqn", ["env.life_loss_info=true"])


def test_unknown_experiment_names_the_nearest():
    with pytest.raises(UserError, match=r"unknown experiment 'pong_vtrace_dem' \(did you mean 'pong_vtrace_demo'\?\)"):
        load_experiment("pong_vtrace_dem")


@pytest.mark.parametrize("text", ["agent: [", "- 1\n- 2\n", "agent: {name: vtrace}\nenv: 3\n", "env: {num_envs: 2}\n"])
def test_a_damaged_file_is_a_user_error(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UserError):
        load_experiment(str(path))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_shipped_experiments_load(path):
    assert load_experiment(str(path)).name == path.stem


def test_every_option_has_a_text():
    options = list(describe_options())
    assert len(options) > 50
    assert all(text for _, _, text in options)
