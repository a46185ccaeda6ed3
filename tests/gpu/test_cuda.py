# SPDX-License-Identifier: Apache-2.0
"""Environments on a real device: equal to the CPU's, on any stream, in a graph."""

import numpy as np
import pytest
import torch
from gpu.on_device import Stepper, actor_difference, difference, environment_difference, graph_against_eager

import seed_hpc
from seed_hpc.errors import MissingDependencyError


def _missing() -> str:
    """Why there is nothing to test, or ""."""
    try:
        seed_hpc.make_vec("pong", 1, device="cuda").close()
    except MissingDependencyError as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(bool(reason := _missing()), reason=reason or "a device is there")


@pytest.mark.parametrize("setting", [0, 1, 2])
@pytest.mark.parametrize("game", ["pong", "breakout", "pitfall2", "elevator_action"])
def test_equals_the_cpu(game, setting):
    assert difference(game, 64, 60, setting) == ""


@pytest.mark.parametrize("name", ["ball", "order_book", "quadruped"])
def test_environments_that_are_no_games_equal_the_cpu(name):
    assert environment_difference(name, 1000, 90) == ""


def test_tensors_are_the_devices():
    envs = seed_hpc.make_vec("pong", 8, device="cuda")
    observations, infos = envs.reset(seed=0)
    results = envs.step(torch.zeros(8, dtype=torch.int64, device="cuda"))
    assert all(tensor.is_cuda for tensor in (observations, *infos.values(), *results[:4]))
    envs.close()


def test_a_graph_equals_eager_steps():
    assert graph_against_eager("pong", 256, seconds=0.2)["equal"]


@pytest.mark.parametrize("experiment", ["breakout_vtrace_demo", "pong_pqn", "pong_apex_dqn"])
def test_a_captured_rollout_equals_an_eager_one(experiment):
    """The closed loop itself: actor, graphs, streams and learner, until the graphs have been replayed."""
    assert actor_difference(experiment) == ""


def test_any_stream():
    first, second = Stepper("breakout", 32), Stepper("breakout", 32)
    stream = torch.cuda.Stream()
    for number in range(20):
        first.step(number)
        with torch.cuda.stream(stream):
            second.step(number)
    torch.cuda.synchronize()
    assert all(map(torch.equal, first.results(), second.results()))
    np.testing.assert_array_equal(first.envs.ram(), second.envs.ram())


def test_results_of_gymnasium_environments_go_to_the_device():
    found, wanted = (seed_hpc.make_vec("gymnasium:CartPole-v1", 4, device=device) for device in ("cuda", "cpu"))
    assert np.array_equal(found.reset(seed=1)[0].cpu().numpy(), wanted.reset(seed=1)[0])
    for step in range(50):
        actions = torch.full((4,), step % 2, device="cuda")
        *results, _ = found.step(actions)
        *expected, _ = wanted.step(actions.cpu().numpy())
        for result, array in zip(results, expected, strict=True):
            assert result.is_cuda
            assert np.array_equal(result.cpu().numpy(), array)
    found.close()
    wanted.close()
