# SPDX-License-Identifier: Apache-2.0
"""When a run counts as converged."""

import pytest

from seed_hpc.training.convergence import ConvergenceDetector


def feed(fps, returns):
    detector = ConvergenceDetector()
    return [detector.add(*values) for values in zip(fps, returns, strict=True)]


def test_ten_checkpoints_of_steady_speed_and_return():
    assert feed([1000.0] * 11, [5.0] * 11) == [False] * 9 + [True] * 2


@pytest.mark.parametrize(
    ("fps", "returns"),
    [
        ([1000.0] * 9 + [1031.0], [5.0] * 10),
        ([1000.0] * 10, [5.0] * 9 + [5.2]),
        ([1000.0] * 10, [5.0] * 5 + [None] + [5.0] * 4),
    ],
    ids=["speed changes", "return grows", "no episodes"],
)
def test_not_converged(fps, returns):
    assert not any(feed(fps, returns))


def test_a_resumed_run_remembers_its_checkpoints():
    detector = ConvergenceDetector()
    for _ in range(9):
        assert not detector.add(1000.0, 5.0)
    again = ConvergenceDetector()
    again.load_state_dict(detector.state_dict())
    assert again.add(1000.0, 5.0)
    assert again.converged
    last = ConvergenceDetector()
    last.load_state_dict(again.state_dict())
    assert last.converged


def test_a_falling_return_is_no_gain():
    assert feed([1000.0] * 10, [5.0] * 9 + [1.0])[-1]
