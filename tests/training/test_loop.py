# SPDX-License-Identifier: Apache-2.0
"""The closed loop: it learns, logs, stops, resumes bit for bit, and ends clearly when a loss is not finite."""

import json
import math
import os
import signal
import time

import pytest
import torch

from seed_hpc.config import load_resolved
from seed_hpc.errors import RunFailedError
from seed_hpc.training.checkpoint import CheckpointStore, load_checkpoint
from seed_hpc.training.learner import NonFiniteError
from seed_hpc.training.loop import ClosedLoop, train

# What a clock or an allocator decides; everything else in a log line is a function of the position alone.
TIMES = {"time_s", "unix_time_s", "fps", "phase_seconds", "step_to_gradient_p50_s", "step_to_gradient_p95_s"}
TIMES |= {"memory_bytes"}


def lines(directory):
    return [json.loads(line) for line in (directory.path / "metrics.jsonl").read_text().splitlines()]


def without_times(directory):
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines(directory)]


PQN = [
    "agent.name=pqn",
    "agent.minibatches=4",
    "agent.epsilon_decay=0.5",
    "agent.epsilon_end=0.02",
    "model.layer_norm=true",
]


REPLAY = ["agent.stack_num=1", "agent.learning_starts=2000", "agent.replay_capacity=20_000", "agent.n_steps=3"]
APEX_DQN = [
    "agent.name=apex_dqn",
    "agent.batch_size=64",
    "agent.replay_ratio=2",
    "agent.target_update_period=100",
    *REPLAY,
]
R2D2 = [
    "agent.name=r2d2",
    "agent.batch_size=16",
    "agent.burn_in=5",
    "agent.length=10",
    "agent.replay_ratio=2",
    "agent.target_update_period=50",
    "agent.discount=0.95",
    "model.core=lstm",
    "model.lstm_size=32",
    *REPLAY,
]


@pytest.mark.parametrize(
    "overrides",
    [["agent.name=vtrace"], ["agent.name=vtrace", "model.core=lstm"], ["agent.name=ppo"], PQN, APEX_DQN, R2D2],
    ids=["vtrace", "vtrace lstm", "ppo", "pqn", "apex_dqn", "r2d2"],
)
def test_every_agent_learns_catch(catch, new_run, overrides):
    experiment, loop = catch("training.total_frames=60_000", "env.num_envs=32", *overrides)
    directory = new_run(experiment, "a")
    assert train(directory, loop) == "finished"
    assert lines(directory)[-1]["mean_return"] > 0.5  # random: about -0.6
    assert loop.envs.closed


def test_run_directory_tells_what_happened(catch, new_run):
    experiment, loop = catch()
    directory = new_run(experiment, "a")
    train(directory, loop)
    info = json.loads((directory.path / "run.json").read_text())
    assert info["status"] == "finished"
    assert info["ended"] >= info["started"]
    assert info["frames"] == 4000
    last = lines(directory)[-1]
    assert last["frames"] == last["agent_steps"] == 4000
    assert last["updates"] == 50
    assert last["episodes"] == pytest.approx(4000 / 10, abs=8)
    assert last["policy_lag"] == 0.0
    assert {"loss", "entropy", "value_loss", "gradient_norm", "learning_rate", "mean_return", "fps"} <= last.keys()
    assert set(last["phase_seconds"]) >= {"environment", "inference", "learner"}
    assert load_resolved(directory.path / "config.yaml") == experiment
    assert CheckpointStore(directory.path / "checkpoints").latest() is not None


class SignalAt:
    """Sends this process a signal in a chosen iteration."""

    def __init__(self, loop, iteration, number):
        self.loop, self.iteration, self.number, self.count = loop, iteration, number, 0
        self.unroll = loop.actor.unroll
        loop.actor.unroll = self

    def __call__(self):
        self.count += 1
        if self.count == self.iteration:
            os.kill(os.getpid(), self.number)
        return self.unroll()


@pytest.mark.parametrize(
    ("number", "core"),
    [
        (signal.SIGTERM, "lstm"),
        (signal.SIGUSR1, "feed_forward"),
        (signal.SIGURG, "feed_forward"),
        (signal.SIGINT, "feed_forward"),
    ],
)
def test_interrupted_and_resumed_equals_uninterrupted(catch, new_run, number, core):
    overrides = [f"model.core={core}", "agent.minibatches=2", "agent.epochs=2", "training.total_frames=2400"]
    experiment, loop = catch(*overrides, max_steps=7)
    whole = new_run(experiment, "whole")
    train(whole, loop)

    _, first = catch(*overrides, max_steps=7)
    SignalAt(first, 13, number)
    parts = new_run(experiment, "parts")
    assert train(parts, first) == "interrupted"
    assert (parts.path / "resume").is_file()
    assert json.loads((parts.path / "run.json").read_text())["status"] == "interrupted"
    _, second = catch(*overrides, max_steps=7)
    assert train(parts, second, resume=True) == "finished"

    assert not (parts.path / "resume").exists()
    assert without_times(parts) == without_times(whole)
    for name, tensor in loop.learner.network.state_dict().items():
        assert torch.equal(tensor, second.learner.network.state_dict()[name]), name


@pytest.mark.parametrize("overrides", [APEX_DQN, R2D2], ids=["apex_dqn", "r2d2"])
def test_replay_agents_resume_with_their_replay(catch, new_run, overrides):
    overrides = [*overrides, "agent.learning_starts=500", "agent.replay_capacity=1500", "training.total_frames=3600"]
    experiment, loop = catch(*overrides, max_steps=7)
    whole = new_run(experiment, "whole")
    train(whole, loop)

    parts = new_run(experiment, "parts")
    for iteration in (4, 25, 40):  # before the first update; with a ring that is not full; with one that is
        _, part = catch(*overrides, max_steps=7)
        SignalAt(part, iteration - part_iterations(parts), signal.SIGTERM)
        assert train(parts, part, resume=iteration > 4) == "interrupted"
    _, last = catch(*overrides, max_steps=7)
    assert train(parts, last, resume=True) == "finished"
    assert without_times(parts) == without_times(whole)
    for name, tensor in loop.learner.network.state_dict().items():
        assert torch.equal(tensor, last.learner.network.state_dict()[name]), name


def test_a_replay_that_is_not_saved_is_filled_anew(catch, new_run):
    overrides = [*APEX_DQN, "agent.learning_starts=800", "agent.save_replay=false"]
    experiment, loop = catch(*overrides)
    directory = new_run(experiment, "a")
    SignalAt(loop, 20, signal.SIGTERM)
    train(directory, loop)
    assert loop.learner.num_updates > 0
    _, again = catch(*overrides)
    again.load_checkpoint(CheckpointStore(directory.path / "checkpoints").latest())
    updates = again.learner.num_updates
    assert updates == loop.learner.num_updates
    for _ in range(9):  # 80 steps each
        again.learn_from(again.actor.unroll())
    assert again.learner.num_updates == updates
    again.learn_from(again.actor.unroll())
    assert again.learner.num_updates > updates


def part_iterations(directory):
    """Iterations of 80 frames that a run has behind it."""
    return json.loads((directory.path / "run.json").read_text()).get("frames", 0) // 80


def test_resume_from_an_older_checkpoint_drops_the_lines_after_it(catch, new_run):
    """A process that was killed has logged beyond its last checkpoint."""
    experiment, loop = catch("training.checkpoint_interval_frames=1500")
    whole = new_run(experiment, "whole")
    train(whole, loop)
    store = CheckpointStore(whole.path / "checkpoints")
    files = sorted(store.folder.glob("checkpoint_*.pt"))
    assert [int(file.stem.split("_")[1]) for file in files] == [1520, 3040, 4000]
    expected = without_times(whole)
    (store.folder / "latest.json").write_text(json.dumps({"file": files[0].name}))
    with (whole.path / "metrics.jsonl").open("a") as file:
        file.write('{"frames": 44')
    _, again = catch("training.checkpoint_interval_frames=1500")
    train(whole, again, resume=True)
    assert without_times(whole) == expected


def test_actor_ahead_of_learner_has_policy_lag(catch, new_run):
    experiment, loop = catch("training.rollouts_ahead=1")
    directory = new_run(experiment, "a")
    train(directory, loop)
    assert lines(directory)[-1]["policy_lag"] == 1.0
    assert loop.statistics.frames == 4000 + 80  # the rollout under way is learned from, not lost


def test_seconds_limit_ends_a_run(catch, new_run):
    experiment, loop = catch("training.total_frames=1e9", "training.max_seconds=0.5")
    assert train(new_run(experiment, "a"), loop) == "finished"
    assert 0.5 <= loop.seconds < 5


def test_a_loss_that_is_not_finite_stops_the_run_with_a_dump(catch, new_run):
    experiment, loop = catch("training.checkpoint_interval_frames=400")
    directory = new_run(experiment, "a")
    unroll, count = loop.actor.unroll, 0

    def poisoned():
        nonlocal count
        count += 1
        rollout = unroll()
        if count == 21:
            rollout.inputs.previous_reward_TB[3, 2] = torch.nan
        return rollout

    loop.actor.unroll = poisoned
    with pytest.raises(RunFailedError, match=r"training stopped at update 20: .*loss.* is not finite; .*not_finite.pt"):
        train(directory, loop)
    assert json.loads((directory.path / "run.json").read_text())["status"] == "failed"
    dump = torch.load(directory.path / "not_finite.pt", weights_only=True)
    assert dump["batch"]["previous_reward_TB"].isnan().any()
    assert all(x.isfinite().all() for x in dump["network"].values())
    newest = load_checkpoint(CheckpointStore(directory.path / "checkpoints").latest())
    assert all(x.isfinite().all() for x in newest["learner"]["network"].values())


def test_values_that_are_not_finite_are_named_when_they_are_found_late(catch):
    """As on CUDA, where only the next log line or checkpoint looks: also an agent with a replay gets there."""
    _, loop = catch(*APEX_DQN, "agent.learning_starts=100")
    loop.learner._guard = lambda output, norm: loop.learner._finite.logical_and_(output.loss.isfinite())
    while not loop.learner.num_updates:
        loop.learn_from(loop.actor.unroll())
    loop.learner.check_finite()
    with torch.no_grad():
        next(loop.learner.network.parameters()).fill_(torch.nan)
    updates = loop.learner.num_updates
    while loop.learner.num_updates == updates:
        loop.learn_from(loop.actor.unroll())
    with pytest.raises(NonFiniteError) as found:
        loop.learner.check_finite()
    assert not math.isfinite(found.value.metrics["loss"])


def test_a_rollout_is_complete_before_the_host_counts_it(catch):
    _, loop = catch()
    order = []
    synchronize, add = loop.actor.synchronize, loop.statistics.add
    loop.actor.synchronize = lambda rollout: order.append("complete") or synchronize(rollout)
    loop.statistics.add = lambda rollout: order.append("counted") or add(rollout)
    loop.learn_from(loop.actor.unroll())
    assert order == ["complete", "counted"]


def test_the_optimizers_settings_are_the_experiments_own_after_a_resumption(catch):
    _, loop = catch()
    loop.learn_from(loop.actor.unroll())
    _, again = catch("optimizer.beta1=0.5", "optimizer.epsilon=1e-3")
    again.load_state_dict(loop.state_dict())
    (group, *_) = again.learner.optimizer.param_groups
    assert (group["betas"][0], group["eps"]) == (0.5, 1e-3)
    own, saved = (x.learner.optimizer.state_dict()["state"][0]["exp_avg"] for x in (again, loop))
    assert torch.equal(own, saved)


def test_learning_rate_schedule_is_logged(catch, new_run):
    experiment, loop = catch("optimizer.schedule=linear", "optimizer.warmup_frames=800")
    directory = new_run(experiment, "a")
    train(directory, loop)
    by_frames = {line["frames"]: line["learning_rate"] for line in lines(directory)}
    assert by_frames[400] == pytest.approx(3e-3 * 320 / 800)  # of the update at 320 frames
    assert by_frames[2000] == pytest.approx(3e-3 * (1 - 1920 / 4000))


def test_two_loops_with_one_seed_are_equal_and_with_another_not(catch):
    losses = []
    for seed in (1, 1, 2):
        _, loop = catch(f"training.seed={seed}")
        assert isinstance(loop, ClosedLoop)
        for _ in range(5):
            loop.learn_from(loop.actor.unroll())
        losses.append(loop.learner.metrics()["loss"])
    assert losses[0] == losses[1] != losses[2]


def test_a_converged_run_ends_if_it_is_to(catch, new_run, monkeypatch):
    monkeypatch.setattr("seed_hpc.training.convergence.MAX_FPS_SPREAD", 1e9)
    monkeypatch.setattr("seed_hpc.training.convergence.MIN_RETURN_GAIN", 1e9)
    overrides = ["training.checkpoint_interval_frames=160", "training.stop_when_converged=true"]
    experiment, loop = catch(*overrides)
    directory = new_run(experiment, "a")
    assert train(directory, loop) == "finished"
    assert loop.statistics.frames < 4000
    assert json.loads((directory.path / "run.json").read_text())["converged"] is True


def test_step_to_gradient_latency_is_that_of_the_rollout(catch):
    _, loop = catch()
    unroll = loop.actor.unroll

    def slow():
        rollout = unroll()
        time.sleep(0.2)
        return rollout

    loop.learn_from(slow())
    quantiles = loop.learner.latency.quantiles()
    assert 0.2 < quantiles["step_to_gradient_p50_s"] < quantiles["step_to_gradient_p95_s"] < 2.0
