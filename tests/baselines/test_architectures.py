# SPDX-License-Identifier: Apache-2.0
"""The conventional architectures: messages arrive as sent, rollouts are joined rightly, each run learns and ends."""

import json
import multiprocessing
import socket

import pytest
import torch

from seed_hpc import cli
from seed_hpc.agents.rollout import Rollout
from seed_hpc.baselines.messages import Channel, join, pack, unpack
from seed_hpc.models.network import Inputs


def rollout(num_envs, offset, version):
    def numbers(*shape):
        return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).view(shape) + offset

    return Rollout(
        inputs=Inputs(
            numbers(4, num_envs, 2),
            torch.zeros(4, num_envs, dtype=torch.bool),
            torch.zeros(4, num_envs, dtype=torch.int64),
            numbers(4, num_envs),
        ),
        last_TB=torch.zeros(4, num_envs, dtype=torch.bool),
        terminated_TB=torch.ones(3, num_envs, dtype=torch.bool),
        behaviour={"log_probability": numbers(3, num_envs)},
        state_BS=numbers(num_envs, 1),
        final_state_BS=numbers(num_envs, 1),
        episode_return_TB=numbers(3, num_envs),
        episode_steps_TB=torch.zeros(3, num_envs, dtype=torch.int64),
        policy_version=version,
    )


def test_messages_arrive_as_sent_and_are_counted():
    left, right = _pair()
    sent = rollout(2, 5.0, 7)
    size = left.send(pack(sent))
    received = unpack(right.receive())
    assert left.bytes_sent == right.bytes_received == size
    assert received.policy_version == 7
    for name, tensor in sent.to_dict().items():
        assert torch.equal(received.to_dict()[name], tensor)
    left.close()
    with pytest.raises(EOFError):
        right.receive()
    right.close()


def _pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        right, _ = server.accept()
    return Channel(left), Channel(right)


def test_joined_rollouts_hold_all_environments_and_the_oldest_version():
    first, second = rollout(2, 0.0, 9), rollout(3, 100.0, 4)
    whole = join([first, second])
    assert whole.num_envs == 5
    assert whole.policy_version == 4
    for index, part in ((torch.arange(2), first), (torch.arange(2, 5), second)):
        chosen = whole.select_envs(index)
        for name, tensor in part.to_dict().items():
            assert torch.equal(chosen.to_dict()[name], tensor), name
        assert torch.equal(chosen.episode_return_TB, part.episode_return_TB)


@pytest.mark.slow
def test_all_architectures_run_learn_and_end(tmp_path, capsys):
    path = tmp_path / "out.json"
    overrides = ["env.num_envs=4", "training.unroll_length=5", "training.num_threads=1", "agent.minibatches=2"]
    arguments = ["--config", "breakout_vtrace_demo", "--seconds", "1", "--seeds", "1", "--actors", "2"]
    before = torch.get_num_threads()
    assert cli.main(["bench", "architectures", *arguments, "--json", str(path), *overrides]) == 0
    torch.set_num_threads(before)
    assert "central_inference" in capsys.readouterr().out
    found = json.loads(path.read_text())
    runs = {run["architecture"]: run for run in found["runs"]}
    assert list(runs) == ["closed_loop", "impala", "central_inference"]
    for run in runs.values():
        assert run["frames_per_s"] > 0
        assert run["updates_per_s"] > 0
        assert 0 < run["latency_p50_s"] <= run["latency_p95_s"]
        assert 0 <= run["learner_idle"] <= 1
        assert 0 <= run["actor_idle"] <= 1
        assert run["curve"]
    # A stack of four 42 x 42 pictures is sent once for each step of four frames: 1764 bytes a frame. Rollouts under way
    # at the beginning and the end of a short run blur that.
    assert runs["closed_loop"]["bytes_per_frame"] == 0
    assert runs["central_inference"]["bytes_per_frame"] == pytest.approx(1800, rel=0.3)
    assert runs["central_inference"]["parameter_share"] == 0
    assert 0 < runs["impala"]["parameter_share"] < 1
    assert runs["impala"]["bytes_per_frame"] > 1400
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--actors", "5"], "cannot be shared evenly by 5 actors"),
        (["--seconds", "0"], "--seconds is 0"),
        (["--seeds", "a"], "must be integers"),
        (["--config", "ball_ppo"], "there is no game 'ball'"),
    ],
)
def test_wrong_usage_exits_2(arguments, message, capsys):
    assert cli.main(["bench", "architectures", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_where_figures_cannot_be_written_is_known_before_they_are_measured(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", "architectures", "--json", str(tmp_path / "file" / "out.json"), "--actors", "2"])
    assert "is no folder" in capsys.readouterr().err
