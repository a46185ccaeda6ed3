# SPDX-License-Identifier: Apache-2.0
"""The plan against what a real run on the CPU allocates."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from seed_hpc import cli
from seed_hpc.config import default_experiment
from seed_hpc.errors import UserError
from seed_hpc.training.environments import make_environments
from seed_hpc.training.loop import ClosedLoop
from seed_hpc.training.memory_plan import _largest_power, environment_shapes, parse_size, plan_memory, propose


def peak_bytes(function):
    """The most bytes that torch's CPU allocator had given out at a time while `function` ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        function()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


REPLAY = ["agent.replay_capacity=2000", "agent.learning_starts=0", "agent.replay_ratio=10"]


@pytest.mark.parametrize(
    "overrides",
    [
        ["agent.name=vtrace", "model.encoder=nature"],
        ["agent.name=vtrace", "model.encoder=impala", "model.core=lstm"],
        ["agent.name=ppo", "agent.minibatches=2", "optimizer.name=rmsprop"],
        ["agent.name=pqn", "agent.minibatches=4", "model.layer_norm=true", "training.rollouts_ahead=1"],
        ["agent.name=apex_dqn", "agent.batch_size=64", *REPLAY],
        ["agent.name=r2d2", "agent.batch_size=8", "agent.burn_in=3", "agent.length=6", "model.core=lstm", *REPLAY],
    ],
    ids=["vtrace nature", "vtrace impala lstm", "ppo", "pqn", "apex_dqn", "r2d2"],
)
def test_plan_is_what_a_run_allocates(overrides):
    common = ["env.num_envs=8", "training.unroll_length=12", "training.device=cpu", "training.num_threads=1"]
    experiment = default_experiment(overrides[0].partition("=")[2], [*common, *overrides[1:]])
    envs = make_environments(experiment.env, num_envs=1, device=torch.device("cpu"))
    parts = plan_memory(experiment, environment_shapes(envs), cuda=False)
    envs.close()

    loop = ClosedLoop(experiment)
    loop.learn_from(loop.actor.unroll())
    network, optimizer = loop.learner.network, loop.learner.optimizer
    assert parts["parameters"] == sum(p.nbytes for p in network.parameters())
    assert parts["gradients"] == sum(p.grad.nbytes for p in network.parameters())
    assert parts["acting copy of the parameters"] == sum(p.nbytes for p in loop.actor.network.parameters())
    moments = [x for state in optimizer.state.values() for x in state.values() if x.ndim]
    assert parts["optimizer"] == sum(x.nbytes for x in moments)
    assert parts["rollouts"] == sum(buffer.num_bytes() for buffer in loop.actor._buffers)

    if "replay" in parts:
        assert parts["replay"] == loop.agent.replay.memory_bytes
    batch = next(iter(loop.agent.batches(network, loop.actor.unroll(), loop.learner.generator)))
    network.zero_grad(set_to_none=True)
    measured = peak_bytes(lambda: loop.agent.loss(network, batch).loss.backward())
    planned = parts["activations of an update"] + parts["gradients"]
    assert planned == pytest.approx(measured, rel=0.25)
    loop.envs.close()


@pytest.mark.parametrize("name", ["vtrace", "apex_dqn"])
def test_the_proposed_sizes_fit_and_larger_ones_do_not(name):
    overrides = ["agent.replay_capacity=100_000"] if name == "apex_dqn" else []
    experiment = default_experiment(name, overrides)
    envs = make_environments(experiment.env, num_envs=1, device=torch.device("cpu"))
    shapes = environment_shapes(envs)
    envs.close()
    proposed = propose(experiment, shapes, 4 * 2**30, 2 * 2**30)
    assert set(proposed) == {"env.num_envs"} | (
        {"agent.batch_size", "agent.replay_capacity"} if name == "apex_dqn" else set()
    )

    def fits(option, size):
        parts = plan_memory(default_experiment(name, [*overrides, f"{option}={size}"]), shapes)
        return sum(parts.values()) - parts.get("replay", 0) <= 0.9 * 4 * 2**30 and (
            parts.get("replay", 0) <= 0.9 * 2 * 2**30
        )

    for option, size in proposed.items():
        assert fits(option, size), option
        assert not fits(option, size + 2000 if option == "agent.replay_capacity" else 2 * size), option


def test_environments_are_no_more_than_the_replay_has_room_for():
    overrides = ["agent.replay_capacity=3000", "model.core=lstm", "model.encoder=dqn2013", "env.num_envs=4"]
    experiment = default_experiment("r2d2", overrides)
    envs = make_environments(experiment.env, num_envs=1, device=torch.device("cpu"))
    proposed = propose(experiment, environment_shapes(envs), 2**40, 2**40)
    envs.close()
    assert proposed["env.num_envs"] == 16  # each needs 143 steps


@pytest.mark.parametrize(
    ("smallest", "limit", "largest"),
    [(1, 100, 64), (1, 64, 64), (3, 3, 0), (3, 4, 4), (1, 0, 0), (1, 2**30, 2**20), (200, 255, 0), (200, 256, 256)],
)
def test_largest_power_of_two(smallest, limit, largest):
    asked = []
    assert _largest_power(smallest, lambda size: asked.append(size) or size <= limit) == largest
    assert len(asked) <= 5  # each is a plan
    assert min(asked) >= smallest


def test_command(tmp_path, capsys):
    plan = tmp_path / "plan.json"
    assert cli.main(["plan", "--agent", "ppo", "--gpu-memory", "16GiB", "--json", str(plan), "env.num_envs=256"]) == 0
    result = json.loads(plan.read_text())
    assert result["num_envs"] == 256
    assert result["fits"]
    assert result["total_bytes"] == sum(result["parts_bytes"].values())
    assert f"env.num_envs={result['proposed']['env.num_envs']}" in capsys.readouterr().out
    assert cli.main(["plan", "--agent", "ppo", "--gpu-memory", "700M", "env.num_envs=4096"]) == 1
    replay = ["plan", "--agent", "apex_dqn", "--gpu-memory", "16GiB", "agent.replay_capacity=100_000"]
    assert cli.main([*replay, "--host-memory", "8GiB", "--json", str(plan)]) == 0
    result = json.loads(plan.read_text())
    assert result["host_bytes"] == result["parts_bytes"]["replay"]
    assert result["total_bytes"] == sum(result["parts_bytes"].values()) - result["host_bytes"]
    assert cli.main([*replay, "--host-memory", "500M"]) == 1  # the replay does not fit beside the GPU
    assert cli.main(["plan", "--agent", "pp", "--gpu-memory", "16GiB"]) == 2
    assert cli.main(["plan", "--agent", "ppo", "--gpu-memory", "lots"]) == 2
    assert "'lots' is not a size of memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"), [("16GiB", 16 * 2**30), ("500M", 500 * 2**20), ("1.5 gb", 1.5 * 2**30), ("7", 7)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1G", "GiB", "1GG"])
def test_what_is_no_size(text):
    with pytest.raises(UserError):
        parse_size(text)
