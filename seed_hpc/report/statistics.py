# SPDX-License-Identifier: Apache-2.0
"""The report's few statistics: quantiles, bootstrap intervals, and the interval of a ratio of two noisy series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 4000
CONFIDENCE = 0.95

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A point estimate with its 95 % interval; bounds None where there is too little data."""

    estimate: float
    low: float | None
    high: float | None


def quantile(values: Sequence[float], q: float) -> float:
    """Returns the linearly interpolated quantile; `values` must not be empty."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), q))


def bootstrap_mean(values: Sequence[float], seed: int = 0) -> Interval:
    """Percentile bootstrap interval of the mean (Efron and Tibshirani 1993, chapter 13).

    Args:
        values: Independent samples, at least one.
        seed: Seed of the resampling, so that the same data give the same report.
    """
    samples = np.asarray(values, dtype=np.float64)
    if samples.size < 2:
        return Interval(estimate=float(samples.mean()), low=None, high=None)
    rng = np.random.default_rng(seed)
    means = samples[rng.integers(0, samples.size, (RESAMPLES, samples.size))].mean(axis=1)
    return _percentile_interval(float(samples.mean()), means)


def bootstrap_difference(before: Sequence[float], after: Sequence[float], seed: int = 0) -> Interval:
    """Interval of mean(after) - mean(before) for independent samples."""
    return _two_sample(before, after, _mean, lambda a, b: a - b, 1, seed)


def bootstrap_ratio(before: Sequence[float], after: Sequence[float], block: int = 1, seed: int = 0) -> Interval:
    """Interval of median(after) / median(before) for two time series.

    Neighbouring throughput samples resemble each other (a busy neighbour slows ten of them), so whole blocks are drawn:
    the circular block bootstrap of Politis and Romano (1992).

    Args:
        before: Positive samples in the order of time.
        after: Likewise.
        block: Samples a block; 1 means independent samples.
        seed: Seed of the resampling.
    """
    return _two_sample(before, after, _median, lambda a, b: a / b, block, seed)


def _mean(samples: Array) -> Array:
    return np.asarray(samples.mean(axis=1))


def _median(samples: Array) -> Array:
    return np.asarray(np.median(samples, axis=1))


def _two_sample(
    before: Sequence[float],
    after: Sequence[float],
    statistic: Callable[[Array], Array],
    combine: Callable[[Any, Any], Any],
    block: int,
    seed: int,
) -> Interval:
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    estimate = float(combine(statistic(second[None])[0], statistic(first[None])[0]))
    if first.size < 2 or second.size < 2:
        return Interval(estimate=estimate, low=None, high=None)
    rng = np.random.default_rng(seed)
    draws = [statistic(_resample(samples, block, rng)) for samples in (first, second)]
    return _percentile_interval(estimate, combine(draws[1], draws[0]))


def _resample(samples: Array, block: int, rng: np.random.Generator) -> Array:
    block = max(1, min(block, samples.size))
    blocks = -(-samples.size // block)
    starts = rng.integers(0, samples.size, (RESAMPLES, blocks, 1))
    index = (starts + np.arange(block)) % samples.size
    return np.asarray(samples[index.reshape(RESAMPLES, -1)[:, : samples.size]])


def _percentile_interval(estimate: float, draws: Array) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(estimate=estimate, low=float(low), high=float(high))
