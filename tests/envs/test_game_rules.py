# SPDX-License-Identifier: Apache-2.0
"""The rules of every game against ale-py: rewards, lives and ends of games computed from the RAM that ale-py shows.

No emulator of ours takes part. Besides random play, some runs write arbitrary values into RAM, so that branches which
random play does not reach (last life, won game, score overflow) are compared too.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
import re
import struct
import subprocess
import sys
import tomllib
from pathlib import Path

import ale_py
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from native_machine import GAMES, ale_machine, call, describe, rom_bytes

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "cuda" / "games" / "generate_tables.py"
TRUE, FALSE = 0xFAB1FAB2, 0xBAD1BAD2  # booleans in ale-py's serialised state

Variables = ctypes.c_int32 * 16


def inner_state(ale: ale_py.ALEInterface) -> bytes:
    state = ale.cloneState(False).serialize()
    (length,) = struct.unpack_from("<i", state, 24)
    return state[28 : 28 + length]


def saved_variables(ale: ale_py.ALEInterface, count: int) -> list[int]:
    """The last `count` numbers before the closing has-generator flag."""
    words = struct.unpack_from(f"<{count}i", inner_state(ale), len(inner_state(ale)) - 4 * (count + 1))
    return [{TRUE: 1, FALSE: 0}.get(word & 0xFFFFFFFF, word) for word in words]


def cartridge_ram(ale: ale_py.ALEInterface) -> bytes:
    """Klax keeps score and mode in cartridge RAM: 128 numbers before its three variables."""
    return bytes(struct.unpack("<128i", inner_state(ale)[-4 * 132 : -4 * 4]))


class Fuzzer:
    """Writes into ale-py's RAM what the rules of a game look at: bytes they read, and the values they compare with."""

    def __init__(self, game: str, rng: random.Random) -> None:
        entry = tomllib.loads((GENERATOR.parent / "games.toml").read_text())[game]
        self.rng = rng
        self.lines = (entry["step"] + entry["lives"]).splitlines()
        numbers = [int(number, 0) for number in re.findall(r"0x[0-9A-F]{2}|\b\d+\b", " ".join(self.lines))]
        self.places = [number & 0x7F for number in numbers if 0x80 <= number <= 0xFF] or [0]
        self.values = [number & 0xFF for number in numbers] + [0xFF]

    def write(self, ale: ale_py.ALEInterface) -> None:
        for _ in range(self.rng.randrange(20)):
            place = self.rng.choice((self.rng.choice(self.places), self.rng.randrange(128)))
            ale.setRAM(place, self.rng.choice((self.rng.choice(self.values), self.rng.randrange(256))))
        # Every comparison of one line at once, for conditions of several bytes.
        comparisons = re.findall(r"ram\[(0x\w\w)\](?: & 0x\w\w)? == (\w+)", self.rng.choice(self.lines))
        for place, value in comparisons:
            if value[0].isdigit():
                ale.setRAM(int(place, 0) & 0x7F, int(value, 0))


def test_table_lists_the_single_player_games_of_ale_py() -> None:
    multi_player_only = {"combat", "joust", "maze_craze", "warlords"}
    assert sorted(set(ale_py.roms.get_all_rom_ids()) - multi_player_only) == GAMES


@pytest.mark.parametrize("game", GAMES)
def test_description(game: str) -> None:
    known = describe(game)
    ale = ale_machine(game)
    assert known["md5"] == hashlib.md5(rom_bytes(game)).hexdigest()
    assert known["size"] == len(rom_bytes(game))
    assert known["minimal_actions"] == [action.value for action in ale.getMinimalActionSet()]
    assert known["modes"] == list(ale.getAvailableModes())
    assert known["difficulties"] == list(ale.getAvailableDifficulties())
    assert (known["height"], known["width"]) == ale.getScreenDims()
    assert (known["lives_after_load"], known["frame_number_after_load"]) == (ale.lives(), ale.getFrameNumber())


@pytest.mark.parametrize("game", GAMES)
def test_rules_follow_ale_py(game: str) -> None:
    index, rng = GAMES.index(game), random.Random(game)
    known = describe(game)
    variables = Variables()
    call("seed_game_initial_variables", index, variables)
    ale = ale_machine(game)
    forgotten = {"atlantis2": 1, "chopper_command": 1, "demon_attack": 1, "hangman": 2, "video_checkers": 1}
    num_saved = len(known["variables"]) - forgotten.get(game, 2 if game == "video_cube" else 0)
    actions = known["minimal_actions"]
    fuzzer = Fuzzer(game, rng)
    results = [ctypes.c_int32() for _ in range(3)]
    for run in range(2):  # the second one with arbitrary values in RAM
        if run == 1:
            ale.reset_game()
            call("seed_game_initial_variables", index, variables)
        if game != "miniature_golf":  # ale-py writes its counters as booleans
            variables[:num_saved] = saved_variables(ale, num_saved)
        action = 0
        for frame in range(200):
            if rng.random() < 0.2:
                action = rng.choice(actions)
            if run == 1 and frame % 8 == 7:
                fuzzer.write(ale)
            reward = ale.act(action)
            ram = bytes(ale.getRAM())
            cart_ram = cartridge_ram(ale) if game == "klax" else None
            call("seed_game_step", index, ram, cart_ram, variables, *map(ctypes.byref, results))
            ours = tuple(result.value for result in results)
            theirs = (reward, ale.lives(), ale.game_over())
            assert ours == theirs, f"run {run}, frame {frame}: (reward, lives, game over)"
            if theirs[2]:
                break


def generate(folder: Path, edit: tuple[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a copy of the generator on games.toml with one text replaced."""
    folder.mkdir()
    for name in ("generate_tables.py", "palettes.toml", "rules.h", "games.toml"):
        text = (GENERATOR.parent / name).read_text()
        if name == "games.toml":
            assert edit[0] in text
            text = text.replace(*edit, 1)
        (folder / name).write_text(text)
    command = [sys.executable, str(folder / "generate_tables.py"), str(folder / "tables.h")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("score = ram[0x8E] - ram[0x8D]", "score = ram[0x8E] - rom[0x8D]"), "'rom[141]' is not part of the rule"),
        (("score = ram[0x8E] - ram[0x8D]", "score = ram[0x10]"), "'16' must be a number 128..255"),
        (("score = ram[0x8E] - ram[0x8D]", "score = old.points"), "there is no variable 'points'"),
        (("score = ram[0x8E] - ram[0x8D]", "score = points"), "'points' has no value here"),
        (("score = ram[0x8E] - ram[0x8D]", "score = ram[0x8E] ***"), "syntax error"),
        (("score = ram[0x8E] - ram[0x8D]", "while 1: score = 1"), "not part of the rule language"),
    ],
)
def test_malformed_rule_names_its_line(tmp_path: Path, edit: tuple[str, str], message: str) -> None:
    result = generate(tmp_path / "games", edit)
    lines = (tmp_path / "games" / "games.toml").read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text == edit[1])
    assert result.returncode == 1
    assert f"games.toml:{line}: [pong] step: " in result.stderr
    assert message in result.stderr
    assert not (tmp_path / "games" / "tables.h").exists()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("[alien]", "[alien]\ncolour = 1"), "[alien] colour: unknown key 'colour'"),
        (('"NOOP FIRE RIGHT LEFT RIGHTFIRE LEFTFIRE"', '"NOOP FIRE JUMP"'), "there is no action 'JUMP'"),
        (("size = 4096", "size = 4095"), "a 4K cartridge cannot have 4095 bytes"),
        (("    select_random(2, 256)\n    act(NOOP)\n", "    x = 1\n"), "the loop never ends"),
    ],
)
def test_malformed_entry_is_refused(tmp_path: Path, edit: tuple[str, str], message: str) -> None:
    result = generate(tmp_path / "games", edit)
    assert result.returncode == 1
    assert message in result.stderr
