# SPDX-License-Identifier: Apache-2.0
"""Pictures that are drawn when somebody looks are those that ale-py has drawn at every frame."""

from __future__ import annotations

import numpy as np
import pytest
from native_machine import NativeMachine, ale_machine

# journey_escape and skiing end frames before the last row, which leaves rows of earlier pictures.
GAMES = ("pong", "seaquest", "journey_escape", "skiing", "double_dunk", "pitfall2")
# Acts between looks: each, every fourth, two of four, rarely, and once after many.
GAPS = (*[1] * 30, *[4] * 20, *[3, 1] * 15, *[37, 2, 61, 1, 1], 300)


@pytest.mark.parametrize("frame_skip", [1, 4])
@pytest.mark.parametrize("game", GAMES)
def test_any_frame_that_is_looked_at_is_ale_pys(game, frame_skip):
    ours, theirs = NativeMachine(game, frame_skip=frame_skip), ale_machine(game, frame_skip=frame_skip)
    generator = np.random.default_rng(2)
    for look, gap in enumerate(GAPS):
        for _ in range(gap):
            action = int(generator.integers(18))
            assert ours.act(action) == theirs.act(action)
            if theirs.game_over() or generator.random() < 0.002:
                ours.reset_game()
                theirs.reset_game()
        np.testing.assert_array_equal(ours.getScreen(), theirs.getScreen(), f"look {look}")
        assert ours.getRAM() == bytes(theirs.getRAM())


@pytest.mark.parametrize("game", GAMES)
def test_a_state_has_its_pictures_whether_or_not_anybody_looked(game):
    looks, never = NativeMachine(game), NativeMachine(game)
    for frame in range(400):
        for machine in (looks, never):
            machine.act(frame // 7 % 18)
        looks.getScreen()
        if frame % 50 != 49:
            continue
        state = never.save()
        assert state == looks.save()
        for machine in (looks, never):
            machine.act(frame % 18)  # never looks: its next picture may build on what was restored
            machine.restore(state)
            machine.act(3)
            machine.act(4)
        np.testing.assert_array_equal(looks.getScreen(), never.getScreen())
