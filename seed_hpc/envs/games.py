# SPDX-License-Identifier: Apache-2.0
"""The table of games that the native library knows."""

from __future__ import annotations

import ctypes
import functools
import json
import re
from dataclasses import dataclass

from seed_hpc import _native
from seed_hpc.errors import UserError, nearest


@dataclass(frozen=True, kw_only=True)
class GameInfo:
    """Facts about one game.

    Attributes:
        index: Position in the library's table.
        name: Snake case, as in ale-py ("ms_pacman").
        md5: Of the ROM image.
        size: Of the ROM image, bytes.
        cartridge: Its type ("4K", "F8", ...).
        height: Rows of the screen; the width is 160.
        pal: Whether the picture is PAL (else NTSC).
        minimal_actions: Action numbers that do something in this game, ascending.
        legal_actions: Action numbers that the game accepts, ascending.
        modes: Modes of the cartridge.
        difficulties: Settings of the difficulty switches.
        default_mode: Mode after loading.
        default_difficulty: Difficulty after loading.
    """

    index: int
    name: str
    md5: str
    size: int
    cartridge: str
    height: int
    pal: bool
    minimal_actions: tuple[int, ...]
    legal_actions: tuple[int, ...]
    modes: tuple[int, ...]
    difficulties: tuple[int, ...]
    default_mode: int
    default_difficulty: int


@functools.cache
def game_names() -> tuple[str, ...]:
    """Returns the names of all games, in alphabetical order."""
    library = _native.load("cpu")
    count = ctypes.c_int32()
    _native.check(library, library.seed_game_count(ctypes.byref(count)))
    names = []
    for index in range(count.value):
        name = ctypes.c_char_p()
        _native.check(library, library.seed_game_name(index, ctypes.byref(name)))
        names.append((name.value or b"").decode())
    return tuple(names)


@functools.cache
def _squeezed_names() -> dict[str, str]:
    """Returns the name of each game by what `_squeeze` leaves of it."""
    return {_squeeze(name): name for name in game_names()}


def _squeeze(name: str) -> str:
    """Returns the letters and digits that "ms_pacman", "MsPacman" and the gymnasium id "ALE/MsPacman-v5" share."""
    return re.sub(r"-v\d+$", "", name.removeprefix("ALE/")).replace("_", "").lower()


@functools.cache
def find_game(name: str) -> GameInfo:
    """Returns the facts of the game called `name`: as in ale-py ("ms_pacman"), "MsPacman", or a gymnasium id.

    Raises:
        UserError: There is no such game; the message names the nearest one.
    """
    known = game_names()
    squeezed = _squeeze(name)
    if squeezed not in _squeezed_names():
        raise UserError(f"there is no game '{name}'{nearest(squeezed, known)}: use one of ale-py's {len(known)} names")
    library = _native.load("cpu")
    index = known.index(_squeezed_names()[squeezed])
    text = ctypes.c_char_p()
    _native.check(library, library.seed_game_describe(index, ctypes.byref(text)))
    facts = json.loads(text.value or b"{}")
    return GameInfo(
        index=index,
        name=facts["name"],
        md5=facts["md5"],
        size=facts["size"],
        cartridge=facts["cartridge"],
        height=facts["height"],
        pal=facts["pal"],
        minimal_actions=tuple(facts["minimal_actions"]),
        legal_actions=tuple(facts["legal_actions"]),
        modes=tuple(facts["modes"]),
        difficulties=tuple(facts["difficulties"]),
        default_mode=facts["default_mode"],
        default_difficulty=facts["default_difficulty"],
    )
