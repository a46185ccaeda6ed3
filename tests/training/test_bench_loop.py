# SPDX-License-Identifier: Apache-2.0
"""`seed-hpc bench loop`: a small run, and that each way does what its name says."""

import json

import pytest

from seed_hpc import cli
from seed_hpc.training import bench_loop
from seed_hpc.training.bench_loop import CLOSED_LOOP, ENVIRONMENT, INFERENCE

OPTIONS = ["env.num_envs=8", "training.unroll_length=5", "model.encoder=dqn2013", "training.device=cpu"]


@pytest.mark.parametrize(
    "agent",
    [["agent.name=vtrace"], ["agent.name=apex_dqn", "agent.stack_num=1", "agent.learning_starts=900"]],
    ids=["vtrace", "apex_dqn"],
)
def test_each_way_spends_its_time_where_it_says(catch, agent):
    _, loop = catch(*agent)
    learned = []
    learn_from = loop.learn_from
    loop.learn_from = lambda rollout: (learned.append(rollout), learn_from(rollout))
    measurements, latency = bench_loop.measure(loop, repeats=2, seconds=0.01)
    found = {item.name: item for item in measurements}
    assert list(found) == [ENVIRONMENT, INFERENCE, CLOSED_LOOP]
    for item in found.values():
        assert len(item.frames_per_s) == 2
        assert sum(item.shares.values()) == pytest.approx(1.0)
    spent = {name: {phase for phase, value in item.seconds.items() if value > 0} for name, item in found.items()}
    assert spent[ENVIRONMENT] - {"other"} == {"environment"}
    assert spent[INFERENCE] - {"other"} == {"environment", "inference"}
    assert spent[CLOSED_LOOP] - {"other"} >= {"environment", "inference", "learner"}
    assert loop.learner.num_updates > 0
    # The warm-up, which fills a replay without learning, does not count.
    steps = loop.options.unroll_length * loop.envs.num_envs
    filling = getattr(loop.experiment.agent, "learning_starts", 0) // steps
    assert 2 <= len(latency) <= len(learned) - max(bench_loop.WARM_UP_ROLLOUTS, filling)


def test_command(tmp_path, capsys):
    file = tmp_path / "loop.json"
    arguments = ["--agent", "ppo", "--repeats", "1", "--seconds", "0.01", "--json", str(file), *OPTIONS]
    assert cli.main(["bench", "loop", *arguments]) == 0
    result = json.loads(file.read_text())
    assert result["experiment"]["env"]["num_envs"] == 8
    assert 0 < result["step_to_gradient_p50_s"] <= result["step_to_gradient_p95_s"]
    rates = [item["frames_per_s"][0] for item in result["measurements"]]
    assert rates[0] > rates[2] > 0
    shown = capsys.readouterr().out
    assert "closed loop" in shown
    assert "median" in shown


def test_wrong_usage(capsys):
    assert cli.main(["bench", "loop", "--agent", "ppo", "--repeats", "0"]) == 2
    assert "--repeats must be at least 1" in capsys.readouterr().err
    assert cli.main(["bench", "loop", "--agent", "ppp"]) == 2
