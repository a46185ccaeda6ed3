# SPDX-License-Identifier: Apache-2.0
"""Every shortcut of cuda/machine/switches.h, taken or not: same RAM, same pictures, on several games."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest
from console_probe import ROOT, ConsoleProbe, build_library

from seed_hpc import _native
from seed_hpc.envs.games import find_game
from seed_hpc.envs.roms import read_rom

SWITCHES = re.findall(r"#if !defined\((SEED_\w+)\)", (ROOT / "cuda" / "machine" / "switches.h").read_text())
GAMES = ("pong", "breakout", "seaquest", "qbert", "riverraid", "up_n_down")
FRAMES = 160
# Several builds live in one process: each needs its own tables of labels.
FLAGS = ("-O1", "-fno-gnu-unique")


def play(library, name: str) -> list[str]:
    """Returns a hash of RAM and picture after each frame of random play; two of four frames are not drawn."""
    game = find_game(name)
    machine = ConsoleProbe(library, read_rom(game, None), game.cartridge)
    machine.set_display(game.pal, 34, game.height, True)
    machine.reset()
    generator = np.random.default_rng(1)
    hashes = []
    for frame in range(FRAMES):
        swchb = 0x3E if 20 <= frame < 24 else 0x3F  # RESET starts the game
        swcha, trigger = (0xFF, False) if frame < 30 else (int(generator.integers(16) << 4 | 15), frame % 7 == 0)
        machine.set_inputs(swcha, swchb, (trigger, False), (400000, 400000, 0, 0))
        machine.run(1, draw=frame % 4 >= 2)
        hashes.append(hashlib.sha1(machine.ram.tobytes() + machine.picture.tobytes()).hexdigest())
    return hashes


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The hashes of each game with every shortcut taken."""
    library = build_library(tmp_path_factory.mktemp("all"), *FLAGS)
    return {name: play(library, name) for name in GAMES}


def test_there_are_switches_and_games_that_play(expected):
    assert len(SWITCHES) >= 6
    for name in GAMES:
        assert len(set(expected[name])) > FRAMES // 4, f"{name} stands still"


@pytest.mark.slow
@pytest.mark.parametrize("flag", [f"-D{switch}=0" for switch in SWITCHES] + ["-march=x86-64-v3"])
def test_the_long_way_gives_the_same(flag, expected, tmp_path):
    if flag.startswith("-march") and _native.instruction_set() not in flag[7:]:
        pytest.skip("this processor has no AVX2")
    library = build_library(tmp_path, *FLAGS, flag)
    for name in GAMES:
        assert play(library, name) == expected[name], f"{name} differs with {flag}"
