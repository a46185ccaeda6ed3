# SPDX-License-Identifier: Apache-2.0
"""Alpha-beta costs against hand-worked numbers; fitting; measuring over gloo."""

import pytest
from forked_ranks import run_ranks

from seed_hpc.distributed.planner import ALGORITHMS, Link, check_algorithm, choose, fit, num_slots, predicted_s
from seed_hpc.errors import UserError

INNER = Link(latency_s=1.0, bytes_per_s=100.0)
OUTER = Link(latency_s=10.0, bytes_per_s=10.0)
PAIRS = ((0, 1), (2, 3))


def test_hand_worked_costs_of_two_pairs():
    # flat: 6 steps of 100 bytes over the slow link; all_gather: 1 step of 400 bytes, 2 outer steps of 100, spread 200.
    assert predicted_s("flat_all_reduce", PAIRS, 400, INNER, OUTER) == pytest.approx(6 * (10 + 10))
    assert predicted_s("grouped_all_gather", PAIRS, 400, INNER, OUTER) == pytest.approx(1 + 4 + 2 * 20 + 1 + 2)
    assert predicted_s("grouped_reduce_scatter", PAIRS, 400, INNER, OUTER) == pytest.approx(1 + 2 + 2 * 20 + 1 + 2)


def test_one_group_pays_no_outer_link():
    free = Link(latency_s=1e9, bytes_per_s=1e-9)
    for algorithm in ALGORITHMS:
        assert predicted_s(algorithm, ((0, 1, 2),), 300, INNER, free) < 100


def test_uneven_groups_have_the_slots_of_the_smallest():
    assert num_slots(((0, 1, 2), (3,))) == 1
    assert predicted_s("grouped_all_gather", ((0, 1), (2,)), 100, INNER, OUTER) == pytest.approx(2 + 2 * 15 + 2)


def test_fit_recovers_a_link():
    link = Link(latency_s=2e-5, bytes_per_s=3e8)
    sizes = [1e4, 1e5, 1e6]
    found = fit(sizes, [link.seconds(size) for size in sizes])
    assert found.latency_s == pytest.approx(link.latency_s)
    assert found.bytes_per_s == pytest.approx(link.bytes_per_s)
    assert fit([1.0, 2.0], [5.0, 4.0]).latency_s >= 0  # noise may slope down; a cost may not


def test_choice():
    assert choose(dict(zip(ALGORITHMS, (3.0, 1.0, 2.0), strict=True))) == "grouped_all_gather"
    assert choose(dict.fromkeys(reversed(ALGORITHMS), 1.0)) == "flat_all_reduce"
    with pytest.raises(UserError, match="did you mean 'flat_all_reduce'"):
        check_algorithm("flat_allreduce")


def test_every_rank_measures_the_same_costs(tmp_path):
    first, *others = run_ranks("measure", 3, tmp_path, groups=[[0, 1], [2]])
    assert set(first) == set(ALGORITHMS)
    assert all(other == first for other in others)
    assert all(latency_s >= 0 and bytes_per_s > 0 for latency_s, bytes_per_s in first.values())
