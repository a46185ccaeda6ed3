# SPDX-License-Identifier: Apache-2.0
"""Bootstrap intervals: against closed forms, coverage over many draws, and reproducible."""

import numpy as np
import pytest

from seed_hpc.report.statistics import bootstrap_difference, bootstrap_mean, bootstrap_ratio


def test_interval_of_a_mean_agrees_with_the_normal_approximation():
    samples = np.random.default_rng(0).normal(5, 2, 400)
    interval = bootstrap_mean(samples)
    half = 1.96 * samples.std() / 20
    assert interval.estimate == pytest.approx(samples.mean())
    assert interval.low == pytest.approx(samples.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(samples.mean() + half, abs=0.03)


def test_the_interval_covers_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(1)
    hits = 0
    for trial in range(200):
        interval = bootstrap_difference(rng.normal(0, 1, 40), rng.normal(0.5, 1, 40), seed=trial)
        hits += interval.low <= 0.5 <= interval.high
    assert 180 <= hits <= 198


def test_one_sample_has_no_interval():
    interval = bootstrap_mean([3.0])
    assert (interval.estimate, interval.low, interval.high) == (3.0, None, None)
    assert bootstrap_ratio([1.0], [2.0, 2.0]).low is None


def test_equal_series_have_ratio_one():
    interval = bootstrap_ratio([2.0] * 10, [4.0] * 10)
    assert (interval.low, interval.estimate, interval.high) == (2.0, 2.0, 2.0)


def test_blocks_widen_the_interval_of_a_correlated_series():
    rng = np.random.default_rng(2)
    slow_noise = np.repeat(rng.normal(100, 10, 20), 10)  # ten neighbours share one disturbance
    steady = np.full(200, 100.0)
    alone, blocks = (bootstrap_ratio(steady, slow_noise, block) for block in (1, 10))
    assert blocks.high - blocks.low > 1.5 * (alone.high - alone.low)


def test_same_data_same_interval():
    samples = [1.0, 5.0, 2.0, 8.0]
    assert bootstrap_mean(samples) == bootstrap_mean(samples)
