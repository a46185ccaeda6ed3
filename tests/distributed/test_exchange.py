# SPDX-License-Identifier: Apache-2.0
"""Gradient exchange over gloo: identical parameters on all ranks, equal to one process on the same batches."""

import pytest
import torch
from forked_ranks import run_ranks
from workers import train_single

from seed_hpc.distributed.planner import ALGORITHMS

UPDATES = 50
GROUPINGS = {
    "two pairs": [[0, 1], [2, 3]],
    "2+1 (uneven)": [[0, 1], [2]],
    "3+1, ranks interleaved": [[0, 2, 3], [1]],
    "one group": [[0, 1, 2]],
    "groups of one": [[0], [1], [2]],
}


@pytest.mark.parametrize("groups", GROUPINGS.values(), ids=GROUPINGS.keys())
def test_all_ranks_hold_the_parameters_of_a_single_process(groups, tmp_path):
    cases = [(algorithm, compression) for algorithm in ALGORITHMS for compression in ("none", "bf16")]
    num_ranks = sum(map(len, groups))
    ranks = run_ranks("train", num_ranks, tmp_path, groups=groups, cases=cases, updates=UPDATES)
    single = train_single(UPDATES)
    for case in ranks[0]:
        digests = {result[case][0] for result in ranks}
        assert len(digests) == 1, f"{case}: ranks differ"
        difference = float((torch.tensor(ranks[0][case][1]) - single).abs().max())
        # bfloat16 keeps 8 bits of a gradient; without compression only the order of sums differs.
        assert difference <= (5e-2 if case.endswith("bf16") else 1e-6), (case, difference)
        assert not case.endswith("bf16") or difference > 1e-6, f"{case}: nothing was compressed"


def test_sizes_that_do_not_divide_and_groups_that_end(tmp_path):
    ranks = run_ranks("average_sizes", 4, tmp_path, groups=[[0, 1, 2], [3]], sizes=[1, 2, 3, 5, 1021])
    assert max(map(max, ranks)) == 0.0
    ranks = run_ranks("average_sizes", 4, tmp_path, groups=[[0, 3], [1, 2]], sizes=[1, 2, 3, 5, 1021])
    assert max(map(max, ranks)) == 0.0
