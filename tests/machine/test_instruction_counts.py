# SPDX-License-Identifier: Apache-2.0
"""A frame takes no more instructions than it did (tests/machine/instruction_counts.py)."""

from __future__ import annotations

import json

import instruction_counts
import pytest


@pytest.mark.slow
def test_a_frame_takes_no_more_instructions_than_the_baseline():
    if (reason := instruction_counts.reason_to_skip()) is not None:
        pytest.skip(reason)
    stored = json.loads(instruction_counts.BASELINE.read_text())["instructions_per_frame"]
    counts = instruction_counts.count_all()
    assert counts.keys() == stored.keys()
    too_many = {
        name: f"{count:,} instead of {stored[name]:,}"
        for name, count in counts.items()
        if count > stored[name] * (1 + instruction_counts.TOLERANCE)
    }
    assert not too_many, f"{too_many}; `make count-instructions REFRESH=1` stores counts that are meant to be higher"
