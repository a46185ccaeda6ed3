# SPDX-License-Identifier: Apache-2.0
"""The table of games: every name that a user may know finds its game."""

import ale_py
import gymnasium
import pytest

from seed_hpc.envs.games import find_game, game_names
from seed_hpc.errors import UserError


def test_every_gymnasium_id_finds_its_game():
    gymnasium.register_envs(ale_py)
    games = {id: spec.kwargs["game"] for id, spec in gymnasium.registry.items() if id.startswith("ALE/")}
    assert set(games.values()) == set(game_names())
    assert {id: find_game(id).name for id in games} == games


@pytest.mark.parametrize("name", ["up_n_down", "UpNDown", "upndown", "ALE/UpNDown-v5"])
def test_spellings(name):
    assert find_game(name).name == "up_n_down"


def test_unknown_names():
    for name in ("pogn", "ALE/Pogn-v5"):
        with pytest.raises(UserError, match=rf"there is no game '{name}' \(did you mean 'pong'\?\)"):
            find_game(name)
