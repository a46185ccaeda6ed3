# SPDX-License-Identifier: Apache-2.0
"""Numbers as a reader says them."""

import pytest

from seed_hpc.report import wording


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (wording.count, 999_999.4, "999,999"),
        (wording.count, 2_370_000, "2.37 M"),
        (wording.count, 1.2e9, "1.20 G"),
        (wording.count, None, "–"),
        (wording.score, -20.66, "−20.7"),
        (wording.score, -0.04, "0.0"),
        (wording.score, 13455.0, "13,455"),
        (wording.duration, 4.21, "4.2 s"),
        (wording.duration, 59.6, "1 min 00 s"),
        (wording.duration, 552, "9 min 12 s"),
        (wording.duration, 11_100, "3 h 05 min"),
        (wording.size, 1536, "1.5 KiB"),
        (wording.size, 25_769_803_776, "24.0 GiB"),
        (wording.percent, 0.384, "38 %"),
        (wording.number, 0.012344, "0.01234"),
        (wording.number, -1234.5, "−1,234"),
    ],
)
def test_wording(function, value, text):
    assert function(value) == text


def test_plural():
    assert (wording.plural(1, "run"), wording.plural(2, "run")) == ("1 run", "2 runs")
