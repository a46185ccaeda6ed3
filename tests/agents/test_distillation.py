# SPDX-License-Identifier: Apache-2.0
"""Distillation: its loss written out in float64; a student of a quarter of the size keeps what the teacher earns."""

import json
from dataclasses import replace

import pytest
import torch
from batches import TableValues, random_rollout
from doubles.catch_env import CatchEnvs

from seed_hpc import cli
from seed_hpc.agents.distillation import DistillationConfig, distillation_loss
from seed_hpc.config import load_experiment
from seed_hpc.errors import UserError
from seed_hpc.training import evaluate
from seed_hpc.training.loop import ClosedLoop, train
from seed_hpc.training.run_directory import RunDirectory

T, B, A = 9, 5, 4
EXPERIMENT = """
agent: {name: vtrace}
env: {game: catch, num_envs: 32, frameskip: 1}
model: {encoder: mlp, core: lstm, lstm_size: 64}
optimizer: {learning_rate: 3e-3}
training: {total_frames: 50_000, unroll_length: 10, num_threads: 1, log_interval_frames: 1600, tensorboard: false,
           checkpoint_interval_s: 1000, device: cpu, sample_hz: 0}
"""


class FirstSteps(torch.nn.Module):
    """The first T of T + 1 rows of a table."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, inputs, state):
        return self.table(inputs, state)[0][:T], state


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_are_those_of_the_divergence(seed):
    network = FirstSteps(TableValues(T, B, A, seed))
    teacher = torch.randn(T, B, A, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    batch = random_rollout(T, B, A, seed)
    batch = replace(batch, behaviour={"teacher": torch.log_softmax(teacher, -1)})
    output = distillation_loss(network, batch)
    output.loss.backward()

    logits = network.table.q.detach().clone().requires_grad_()
    terms = []
    for t in range(T):
        for b in range(B):
            if not batch.last_TB[t, b]:
                p = teacher[t, b].exp() / teacher[t, b].exp().sum()
                pi = logits[t, b].exp() / logits[t, b].exp().sum()
                terms.append(sum(p[a] * (p[a] / pi[a]).log() for a in range(A)))
    expected = torch.stack(terms).mean()
    expected.backward()
    torch.testing.assert_close(output.loss, expected)
    torch.testing.assert_close(network.table.q.grad, logits.grad)


@pytest.fixture
def catch(tmp_path, monkeypatch):
    """Returns a function of a run's name and overrides that makes (run directory, loop)."""
    path = tmp_path / "catch.yaml"
    path.write_text(EXPERIMENT)
    monkeypatch.setattr(evaluate, "make_environments", lambda config, *, num_envs, device, **_: CatchEnvs(num_envs))

    def make(run_id, *overrides):
        experiment = load_experiment(str(path), overrides)
        loop = ClosedLoop(experiment, CatchEnvs(experiment.env.num_envs))
        return RunDirectory.create(tmp_path / "results", experiment, run_id=run_id), loop

    return make


def test_a_small_student_keeps_the_teachers_return(catch, capsys):
    teacher, loop = catch("teacher")
    train(teacher, loop)
    student, loop = catch("student", "agent.name=distillation", f"agent.teacher={teacher.path}", "model.lstm_size=16")
    train(student, loop)
    assert json.loads((student.path / "metrics.jsonl").read_text().splitlines()[-1])["agreement"] > 0.8
    assert cli.main(["evaluate", str(student.path), "--no-gif", "evaluation.episodes=100"]) == 0
    result = json.loads((student.path / "evaluation.json").read_text())
    assert result["teacher"]["mean"] > 0.7
    assert result["return_lost"]["mean"] == pytest.approx(result["teacher"]["mean"] - result["mean"])
    assert result["return_lost"]["mean"] < 0.3
    assert 3 * result["parameters"] < result["teacher"]["parameters"]


def test_the_teacher_acts_as_its_own_evaluation_says(catch, monkeypatch):
    teacher, loop = catch("teacher", "evaluation.policy=greedy", "training.total_frames=640")
    train(teacher, loop)
    overrides = [f"agent.teacher={teacher.path}", "evaluation.policy=sample", "training.total_frames=640"]
    student, loop = catch("student", "agent.name=distillation", *overrides)
    train(student, loop)
    played, play = [], evaluate.play_trained
    monkeypatch.setattr(evaluate, "play_trained", lambda *args: played.append(result := play(*args)) or result)
    assert cli.main(["evaluate", str(student.path), "--no-gif"]) == 0
    assert [policy.greedy for _, policy, _ in played] == [False, True]


def test_a_resumed_student_goes_on_as_if_nothing_had_happened(catch):
    teacher, loop = catch("teacher", "training.total_frames=640")
    train(teacher, loop)
    overrides = ["agent.name=distillation", f"agent.teacher={teacher.path}", "training.total_frames=6400"]
    whole, loop = catch("whole", *overrides)
    train(whole, loop)
    _, first = catch("parts", *overrides)
    for _ in range(7):
        first.learn_from(first.actor.unroll())
    _, second = catch("other", *overrides)
    second.load_state_dict(first.state_dict())
    while not second.is_finished():
        second.learn_from(second.actor.unroll())
    for name, tensor in loop.learner.network.state_dict().items():
        assert torch.equal(tensor, second.learner.network.state_dict()[name]), name


def test_teachers_that_do_not_fit(catch, tmp_path):
    teacher, loop = catch("teacher", "training.total_frames=320")
    with pytest.raises(UserError, match="has no checkpoint yet"):
        catch("a", "agent.name=distillation", f"agent.teacher={teacher.path}")
    train(teacher, loop)
    with pytest.raises(UserError, match=r"agent\.teacher is missing"):
        catch("b", "agent.name=distillation")
    with pytest.raises(UserError, match="does not exist"):
        catch("c", "agent.name=distillation", f"agent.teacher={tmp_path / 'nobody'}")
    envs = CatchEnvs(32)
    envs.single_action_space.n = 4
    experiment = load_experiment(
        str(tmp_path / "catch.yaml"), ["agent.name=distillation", f"agent.teacher={teacher.path}"]
    )
    with pytest.raises(UserError, match=r"does not fit observations of shape .* and 4 actions"):
        ClosedLoop(experiment, envs)
    with pytest.raises(UserError, match="temperature"):
        DistillationConfig(temperature=0.0)
