# SPDX-License-Identifier: Apache-2.0
"""Compares runs with a baseline and tells a change from noise.

A metric is worse only when its whole 95 % interval lies beyond the tolerance, and unchanged only when its whole
interval lies within it; everything between is inconclusive and says so. One noisy figure can therefore neither fail a
check nor pass it by luck.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from seed_hpc.report.run_record import thin
from seed_hpc.report.statistics import Interval, bootstrap_difference, bootstrap_ratio

Verdict = Literal["regression", "improvement", "unchanged", "inconclusive", "not comparable"]

DEFAULT_TOLERANCE = 0.05
MIN_SAMPLES = 5
MAX_SAMPLES = 1000
BLOCKS = 10  # Blocks that a throughput series is cut into for the block bootstrap.


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One metric of one run against the baseline.

    Attributes:
        metric: throughput | evaluation_return.
        run: Label of the candidate.
        baseline_value: Median frames/s, or mean return.
        value: The candidate's.
        change: Relative change; for returns relative to the baseline's distance from the random policy.
        low: Lower bound of the change's 95 % interval.
        high: Upper bound.
        verdict: What the interval allows to say.
        text: The same in plain words.
    """

    metric: str
    run: str
    baseline_value: float | None
    value: float | None
    change: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    text: str

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain JSON values."""
        return asdict(self)


def compare_runs(runs: Sequence[dict[str, Any]], tolerance: float) -> list[Comparison]:
    """Compares every run after the first with the first.

    Args:
        runs: `runs` sections of report documents; the first is the baseline.
        tolerance: Relative change that does not matter, 0.05 = 5 %.
    """
    baseline = runs[0]
    return [
        comparison
        for run in runs[1:]
        for comparison in (compare_throughput(baseline, run, tolerance), compare_returns(baseline, run, tolerance))
    ]


def compare_throughput(baseline: dict[str, Any], run: dict[str, Any], tolerance: float) -> Comparison:
    """Median frames/s, by a block bootstrap over the log lines."""
    before, after = _throughput_samples(baseline), _throughput_samples(run)
    if min(len(before), len(after)) < MIN_SAMPLES:
        why = f"a run has fewer than {MIN_SAMPLES} log lines with frames/s after its warm-up"
        return _not_comparable("throughput", run, why)
    block = max(1, min(len(before), len(after)) // BLOCKS)
    ratio = bootstrap_ratio(before, after, block)
    values = (baseline["throughput"]["median_fps"], run["throughput"]["median_fps"])
    return _judge("throughput", run, values, ratio, shift=1.0, scale=1.0, tolerance=tolerance)


def compare_returns(baseline: dict[str, Any], run: dict[str, Any], tolerance: float) -> Comparison:
    """Mean evaluation return, relative to how far the baseline is above the random policy."""
    before, after = baseline["evaluation"], run["evaluation"]
    if before is None or after is None:
        return _not_comparable("evaluation_return", run, "a run has no evaluation")
    if baseline["environment"] != run["environment"]:
        why = f"{baseline['environment']} and {run['environment']} are different environments"
        return _not_comparable("evaluation_return", run, why)
    if min(before["episodes"], after["episodes"]) < MIN_SAMPLES:
        return _not_comparable("evaluation_return", run, f"an evaluation has fewer than {MIN_SAMPLES} episodes")
    floor = before["random"]["mean"] if before["random"] is not None else 0.0
    scale = abs(before["mean"] - floor) or 1.0
    difference = bootstrap_difference(before["returns"], after["returns"])
    values = (before["mean"], after["mean"])
    return _judge("evaluation_return", run, values, difference, shift=0.0, scale=scale, tolerance=tolerance)


def has_regression(comparisons: Sequence[Comparison]) -> bool:
    """Whether any metric is certainly worse than the tolerance allows."""
    return any(comparison.verdict == "regression" for comparison in comparisons)


def _judge(
    metric: str,
    run: dict[str, Any],
    values: tuple[float, float],
    interval: Interval,
    shift: float,
    scale: float,
    tolerance: float,
) -> Comparison:
    if interval.low is None or interval.high is None:
        return _not_comparable(metric, run, "too few samples for an interval")
    change = (interval.estimate - shift) / scale
    low, high = (interval.low - shift) / scale, (interval.high - shift) / scale
    verdict: Verdict
    if high < -tolerance:
        verdict, says = "regression", "certainly worse"
    elif low > tolerance:
        verdict, says = "improvement", "certainly better"
    elif low >= -tolerance and high <= tolerance:
        verdict, says = "unchanged", f"equal within {100 * tolerance:g} %"
    else:
        verdict, says = "inconclusive", "too noisy to tell: repeat both runs, or make them longer"
    return Comparison(
        metric=metric,
        run=run["label"],
        baseline_value=values[0],
        value=values[1],
        change=change,
        low=low,
        high=high,
        verdict=verdict,
        text=f"{100 * change:+.1f} % (95 % interval {100 * low:+.1f} % to {100 * high:+.1f} %): {says}",
    )


def _not_comparable(metric: str, run: dict[str, Any], why: str) -> Comparison:
    return Comparison(
        metric=metric,
        run=run["label"],
        baseline_value=None,
        value=None,
        change=None,
        low=None,
        high=None,
        verdict="not comparable",
        text=why,
    )


def _throughput_samples(run: dict[str, Any]) -> list[float]:
    """Frames/s of the log lines after the warm-up that `throughput` leaves out too."""
    if run["throughput"] is None:
        return []
    values = [value for value in run["curves"].get("fps", []) if value is not None and value > 0]
    return thin(values[-run["throughput"]["samples"] :], MAX_SAMPLES)
