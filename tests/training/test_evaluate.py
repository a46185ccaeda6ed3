# SPDX-License-Identifier: Apache-2.0
"""Evaluation counts every episode once, whatever its length, and shows the network what training showed it."""

import json
from types import SimpleNamespace

import pytest
import torch
from doubles.catch_env import CatchEnvs
from PIL import Image

from seed_hpc import cli
from seed_hpc.config import EnvConfig
from seed_hpc.models.network import Inputs
from seed_hpc.training import episode_gif, evaluate, evaluate_command
from seed_hpc.training.checkpoint import CheckpointStore
from seed_hpc.training.environments import make_environments
from seed_hpc.training.evaluate import WHOLE_GAMES, RandomPolicy, beats_random, play_episodes
from seed_hpc.training.human_scores import human_normalized, human_score
from seed_hpc.training.loop import train


class Lengths:
    """Environment b pays 1 a step and ends after (b + 1) * 3 steps; NextStep autoreset begins the next episode."""

    num_envs = 4
    single_action_space = SimpleNamespace(n=100)

    def reset(self, *, seed=None):
        self.t = torch.zeros(4, dtype=torch.int64)
        self.ended = torch.zeros(4, dtype=torch.bool)
        return torch.zeros(4, 2), {}

    def step(self, actions):
        self.t = torch.where(self.ended, 0, self.t + 1)
        reward = torch.where(self.ended, 0.0, 1.0)
        self.ended = self.t == torch.arange(1, 5) * 3
        truncated = self.ended & (torch.arange(4) == 3)
        return torch.zeros(4, 2), reward, self.ended & ~truncated, truncated, {}


class Probe:
    state_size = 1

    def __init__(self):
        self.calls = []

    def __call__(self, inputs, state):
        self.calls.append((inputs, state.clone()))
        return torch.full((inputs.first_TB.shape[1],), len(self.calls)), state + 1


def test_one_episode_of_each_environment_counts():
    probe = Probe()
    episodes = play_episodes(Lengths(), probe, seed=0, clip_rewards=True)
    assert episodes.returns == [3.0, 6.0, 9.0, 12.0]
    assert episodes.steps == [3, 6, 9, 12]
    assert episodes.num_truncated == 1
    assert [inputs.first_TB.shape[1] for inputs, _ in probe.calls] == [4] * 3 + [3] * 3 + [2] * 3 + [1] * 3


@pytest.mark.parametrize("changes", [{}, WHOLE_GAMES], ids=["training", "evaluation"])
def test_lost_lives_end_episodes_for_the_learner_only(changes):
    config = EnvConfig(game="breakout", life_loss_info=True, img_height=20, img_width=16, num_threads=1)
    envs = make_environments(config, num_envs=4, device=torch.device("cpu"), **changes)
    generator = torch.Generator().manual_seed(0)
    envs.reset(seed=0)
    lives_at_ends = []
    for _ in range(300):
        actions = torch.randint(4, (4,), generator=generator)
        _, _, terminated, _, info = envs.step(actions)
        lives_at_ends += torch.as_tensor(info["lives"])[terminated].tolist()
    envs.close()
    assert set(lives_at_ends) == ({0} if changes else {0, 1, 2, 3, 4})


def test_the_network_sees_what_it_saw_in_training():
    probe = Probe()
    play_episodes(Lengths(), probe, seed=0, clip_rewards=True)
    for step, (inputs, state) in enumerate(probe.calls):
        assert (inputs.first_TB == (step == 0)).all()
        assert (inputs.previous_action_TB == step).all()
        assert (inputs.previous_reward_TB == (step > 0)).all()
        assert (state == step).all()


def test_random_policy_on_catch_returns_what_it_must():
    """Random play catches about one ball in five: the mean return is near -0.6."""
    policy = RandomPolicy(SimpleNamespace(n=3), seed=0, device=torch.device("cpu"))
    summary = play_episodes(CatchEnvs(2000), policy, seed=3, clip_rewards=True).summary()
    low, high = summary["ci95"]
    assert low < summary["mean"] < high
    assert summary["mean"] == pytest.approx(-0.6, abs=0.07)
    assert high - low < 0.1


def test_intervals_must_be_apart_to_beat_random():
    def result(low, random_high):
        return {"ci95": [low, low + 1], "random": {"ci95": [random_high - 1, random_high]}}

    assert beats_random(result(2.0, 1.9))
    assert not beats_random(result(2.0, 2.0))


def test_human_scores():
    assert human_score("pong") == 14.6
    assert human_score("catch") is None
    assert human_normalized("breakout", 1.7) == 0.0
    assert human_normalized("breakout", 30.5) == 1.0
    assert human_normalized("catch", 1.0) is None


@pytest.fixture
def trained_run(catch, new_run, monkeypatch):
    """A finished run on Catch, and environments of Catch for its evaluation; pictures are enlarged boards."""
    experiment, loop = catch("training.total_frames=60_000", "env.num_envs=32")
    directory = new_run(experiment, "a")
    train(directory, loop)

    def make(config, *, num_envs, device, **changes):
        envs = CatchEnvs(num_envs)
        if changes.get("grayscale") is False:
            obs = envs._obs
            envs._obs = lambda: obs().unsqueeze(-1).expand(-1, -1, -1, -1, 3)
        return envs

    monkeypatch.setattr(evaluate, "make_environments", make)
    monkeypatch.setattr(episode_gif, "make_environments", make)
    return directory


def test_command_writes_evaluation_and_gif(trained_run):
    arguments = ["evaluate", str(trained_run.path), "--require-better-than-random", "evaluation.episodes=40"]
    assert cli.main(arguments) == 0
    result = json.loads((trained_run.path / "evaluation.json").read_text())
    assert result["game"] == "catch"
    assert result["run_id"] == "a"
    assert result["episodes"] == len(result["returns"]) == 40
    assert result["mean"] == pytest.approx(sum(result["returns"]) / 40)
    assert len(result["random"]["returns"]) == 30
    assert result["ci95"][0] > result["random"]["ci95"][1]
    assert result["human"] is None
    assert result["frames"] == 60_160
    with Image.open(trained_run.path / "episode.gif") as gif:
        assert gif.format == "GIF"
        assert gif.n_frames == 10
        assert gif.size == (5, 10)


def test_a_policy_that_is_sampled_explores_as_it_did_at_the_end_of_training(catch, new_run):
    overrides = ["agent.name=pqn", "agent.minibatches=4", "model.layer_norm=true", "agent.epsilon_end=0.03"]
    experiment, loop = catch(*overrides)
    directory = new_run(experiment, "a")
    train(directory, loop)
    checkpoint = CheckpointStore(directory.path / "checkpoints").latest()
    policy, _ = evaluate.load_policy(experiment, checkpoint, CatchEnvs(5), torch.device("cpu"))
    assert float(policy.agent.epsilon) == pytest.approx(0.03)


def test_an_agent_with_a_replay_is_evaluated_with_the_epsilon_of_evaluation(catch, new_run):
    """Not with the ladder of epsilons that collects its experience, of which the first is 0.4."""
    overrides = ["agent.name=apex_dqn", "agent.stack_num=1", "agent.replay_capacity=1000", "agent.evaluation_epsilon=0"]
    experiment, loop = catch(*overrides, "training.total_frames=80", "evaluation.policy=sample")
    directory = new_run(experiment, "a")
    train(directory, loop)
    checkpoint = CheckpointStore(directory.path / "checkpoints").latest()
    envs = CatchEnvs(500)
    policy, _ = evaluate.load_policy(experiment, checkpoint, envs, torch.device("cpu"))
    obs = envs.reset(seed=1)[0]
    step = Inputs(*(x.unsqueeze(0) for x in (obs, torch.ones(500).bool(), torch.zeros(500).long(), torch.zeros(500))))
    action_B, _ = policy(step, torch.zeros(500, 0))
    assert torch.equal(action_B, policy.network(step, torch.zeros(500, 0))[0][0].argmax(-1))


def test_an_agent_no_better_than_random_fails_the_check(trained_run, monkeypatch):
    monkeypatch.setattr(
        evaluate.TrainedPolicy, "__call__", lambda self, inputs, state: (inputs.previous_action_TB[0] * 0, state)
    )
    assert cli.main(["evaluate", str(trained_run.path), "--no-gif", "--require-better-than-random"]) == 1
    assert (trained_run.path / "evaluation.json").is_file()
    assert not (trained_run.path / "episode.gif").exists()


def test_wrong_usage_is_one_sentence(trained_run, tmp_path, capsys):
    assert cli.main(["evaluate", str(tmp_path / "nowhere")]) == 2
    assert "holds no run.json" in capsys.readouterr().err
    assert cli.main(["evaluate", str(trained_run.path), "evaluation.episods=3"]) == 2
    assert "did you mean 'episodes'?" in capsys.readouterr().err
    assert cli.main(["evaluate", str(trained_run.path), "evaluation.episodes=1"]) == 2
    assert "evaluation.episodes=1" in capsys.readouterr().err
    (tmp_path / "no").touch()
    with pytest.raises(SystemExit, match="2"):
        cli.main(["evaluate", str(trained_run.path), "--json", str(tmp_path / "no" / "x.json")])
    assert "cannot be written" in capsys.readouterr().err
    for path in (trained_run.path / "checkpoints").iterdir():
        path.unlink()
    assert cli.main(["evaluate", str(trained_run.path)]) == 2
    assert "has no checkpoint yet" in capsys.readouterr().err


def test_long_episodes_are_thinned():
    pictures = episode_gif._Thinned(limit=10)
    for value in range(100):
        pictures.append(torch.full((1, 1, 2, 2, 3), value, dtype=torch.uint8))
    values = [picture.getpixel((0, 0))[0] for picture in pictures.kept]
    assert values == list(range(0, 100, 16))


def test_summary_sentences_name_the_human():
    values = {"mean": 1.0, "ci95": [0.5, 1.5], "episodes": 3}
    lines = evaluate_command._sentences(
        {"game": "pong", **values, "random": values, "human": 14.6, "human_source": "S"}
    )
    assert lines[-1] == "  human   14.60  (S)"
