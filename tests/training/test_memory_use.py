# SPDX-License-Identifier: Apache-2.0
"""Memory by owner: what the plan predicts is what is there, and on CUDA the owners add up to what is in use."""

import json

import torch

from seed_hpc.training.loop import train
from seed_hpc.training.memory_plan import environment_shapes, plan_memory
from seed_hpc.training.memory_use import memory_by_owner


def test_owners_hold_what_the_plan_predicts(catch, new_run):
    experiment, loop = catch()
    planned = plan_memory(experiment, environment_shapes(loop.envs), cuda=False)
    directory = new_run(experiment, "a")
    train(directory, loop)
    found = json.loads((directory.path / "metrics.jsonl").read_text().splitlines()[-1])["memory_bytes"]
    assert found["parameters"] > 0
    for part in ("parameters", "acting copy of the parameters", "gradients", "rollouts", "environments"):
        assert found[part] == planned[part], part
    # Beside the two moments Adam counts its steps, 4 bytes for each parameter tensor.
    assert 0 <= found["optimizer"] - planned["optimizer"] < 1000


def test_target_network_and_replay_have_an_owner(catch, new_run):
    replay = ["agent.stack_num=1", "agent.learning_starts=0", "agent.replay_capacity=2000", "agent.batch_size=16"]
    experiment, loop = catch("agent.name=apex_dqn", "agent.discount=0.95", *replay)
    planned = plan_memory(experiment, environment_shapes(loop.envs), cuda=False)
    before = memory_by_owner(loop.learner, loop.actor, loop.device)
    assert (before["target network"], before["replay"]) == (0, 0)
    loop.learn_from(loop.actor.unroll())
    found = memory_by_owner(loop.learner, loop.actor, loop.device)
    assert found["target network"] == planned["target network"] == found["parameters"] > 0
    assert found["replay"] == planned["replay"] > 2000


def test_on_cuda_the_owners_add_up_to_what_is_in_use(catch, monkeypatch):
    _, loop = catch()
    loop.envs.memory_bytes = lambda: (1000, 500)
    on_cpu = memory_by_owner(loop.learner, loop.actor, torch.device("cpu"))
    assert on_cpu["environments"] == 8 * 1000 + 500
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (60_000_000, 100_000_000))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 20_000_000)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 30_000_000)
    owners = memory_by_owner(loop.learner, loop.actor, torch.device("cuda"))
    assert sum(owners.values()) == 40_000_000
    assert owners["reserve of torch"] == 10_000_000
    assert owners["outside torch"] == 10_000_000 - on_cpu["environments"]
    assert {name: owners[name] for name in on_cpu} == on_cpu
