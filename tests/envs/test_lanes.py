# SPDX-License-Identifier: Apache-2.0
"""What vectors of environments share: seeds of lanes, masks, snapshots in one piece."""

import numpy as np
import pytest

from seed_hpc.envs import lanes
from seed_hpc.errors import UserError

IDS = np.arange(5, 9, dtype=np.int32)


def seeds_of(seed, mask=None, **options):
    seeds, env_ids = lanes.lane_seeds(seed, mask, IDS, seeded=True, **options)
    return seeds.tolist(), env_ids.tolist()


def test_one_seed_for_all_lanes():
    assert seeds_of(7) == ([7, 7, 7, 7], IDS.tolist())
    assert seeds_of(7, consecutive=True) == ([7, 8, 9, 10], IDS.tolist())
    mask = np.array([False, True, False, True])
    assert seeds_of(7, mask, consecutive=True) == ([-1, 7, -1, 8], IDS.tolist())


def test_with_a_seed_of_its_own_a_lane_does_not_depend_on_its_number():
    assert seeds_of([3, 1, 2, 0], consecutive=True) == ([3, 1, 2, 0], [0, 0, 0, 0])
    assert seeds_of(np.array([4, 6], np.uint64), np.array([True, False, False, True])) == ([4, -1, -1, 6], [0] * 4)


def test_without_a_seed_lanes_go_on_or_take_one_from_the_system():
    assert lanes.lane_seeds(None, None, IDS, seeded=True) == (None, None)
    seeds, _ = lanes.lane_seeds(None, None, IDS, seeded=False)
    assert (seeds == seeds[0]).all()
    assert seeds[0] >= 0


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (2**31 - 3, "0 to 2147483647"),  # the last lane would get 2^31
        (-2, "0 to 2147483647"),
        (np.full(4, 2**64 - 1, np.uint64), "0 to 2147483647"),  # not -1
        (0.5, "an integer"),
        ([1, 2], "each of the 4 lanes"),
        (2**70, "an integer"),
    ],
)
def test_seeds_that_are_none(seed, message):
    with pytest.raises(UserError, match=message):
        seeds_of(seed, consecutive=True)


def test_the_first_reset_seeds_every_lane():
    with pytest.raises(UserError, match="a seed for every lane"):
        lanes.lane_seeds([1, -1, 2, 3], None, IDS, seeded=False)
    with pytest.raises(UserError, match="must start every lane"):
        lanes.reset_mask(np.array([True, False]), 2, seeded=False)
    assert lanes.reset_mask(np.array([True, True]), 2, seeded=False) is None


def test_snapshots_in_one_piece():
    state = lanes.pack_snapshots(b"SEEDTEST", [b"abc", b"", b"de"])
    for given in (state, bytearray(state), memoryview(state)):
        assert lanes.unpack_snapshots(b"SEEDTEST", given, 3) == [b"abc", b"", b"de"]
    for damaged, count, message in (
        (state, 2, "one of 3 lanes"),
        (b"SEEDELSE" + state[8:], 3, "no state"),
        (state[:20], 3, "damaged"),
        (state[:-1], 3, "damaged"),
        (state + b"junk", 3, "damaged"),
        (state[:12] + (2**63).to_bytes(8, "little") + state[20:], 3, "damaged"),
        (b"", 0, "no state"),
    ):
        with pytest.raises(UserError, match=message):
            lanes.unpack_snapshots(b"SEEDTEST", damaged, count)
