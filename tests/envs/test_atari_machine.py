# SPDX-License-Identifier: Apache-2.0
"""One machine of ours against ale-py: loading, resets, actions, sticky actions, modes, paddles, colours, snapshots.

A short look at every game; `seed-hpc parity` plays them for long.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
import sys
from pathlib import Path

import ale_py
import numpy as np
import pytest

from seed_hpc.errors import UserError

sys.path.insert(0, str(Path(__file__).parent))

from native_machine import (
    GAMES,
    RNG_COUNTER,
    Machine,
    NativeMachine,
    Options,
    ale_machine,
    call,
    describe,
    difference,
    rom_bytes,
)

PAL_GAMES = [game for game in GAMES if describe(game)["pal"]]


def play_both(ours: NativeMachine, theirs: Machine, num_acts: int, seed: str, *, strengths: bool = False) -> int:
    """Gives both machines the same random actions and fails at the first difference; returns the number of resets."""
    rng, action, resets = random.Random(seed), 0, 0
    for i in range(num_acts):
        if rng.random() < 0.3:
            action = rng.randrange(18)
        strength = rng.random() if strengths else 1.0
        rewards = ours.act(action, strength), theirs.act(action, strength)
        assert rewards[0] == rewards[1], f"act {i}: reward {rewards[0]}, expected {rewards[1]}"
        assert not (found := difference(ours, theirs)), f"act {i}: {found}"
        if theirs.game_over() and rng.random() < 0.3:
            ours.reset_game()
            theirs.reset_game()
            resets += 1
            assert not (found := difference(ours, theirs)), f"reset after act {i}: {found}"
    return resets


@pytest.mark.parametrize("game", GAMES)
def test_load_reset_and_play(game: str) -> None:
    rng, known = random.Random(game), describe(game)
    ours, theirs = NativeMachine(game, seed=3, sticky=0.25), ale_machine(game, seed=3, sticky=0.25)
    assert not difference(ours, theirs)
    mode, difficulty = rng.choice(known["modes"]), rng.choice(known["difficulties"])
    for machine in (ours, theirs):
        machine.setMode(mode)
        machine.setDifficulty(difficulty)
        machine.reset_game()
    assert not (found := difference(ours, theirs)), f"mode {mode}, difficulty {difficulty}: {found}"
    play_both(ours, theirs, 30, game)


@pytest.mark.parametrize("game", ["pong", "breakout", "backgammon", "wizard_of_wor", "skiing"])
def test_frame_skip_limit_and_strength(game: str) -> None:
    settings = {"frame_skip": 4, "max_num_frames_per_episode": 150}
    ours, theirs = NativeMachine(game, sticky=0.5, **settings), ale_machine(game, sticky=0.5, **settings)
    resets = play_both(ours, theirs, 200, game, strengths=True)
    assert resets > 0


def test_difficulty_acts_at_once_and_mode_at_the_reset() -> None:
    plain, mode, difficulty = (NativeMachine("breakout") for _ in range(3))
    mode.setMode(4)
    difficulty.setDifficulty(1)
    for machine in (plain, mode, difficulty):
        for _ in range(30):
            machine.act(1)
    assert not difference(mode, plain)
    assert difference(difficulty, plain)
    mode.reset_game()
    plain.reset_game()
    assert difference(mode, plain)


def test_raised_paddle_range_stays_for_the_next_cartridge() -> None:
    theirs = ale_machine("backgammon")
    theirs.loadROM(ale_py.roms.get_rom_path("breakout"))
    raised = NativeMachine("backgammon").paddle_max()
    assert raised == 1_000_000
    ours = NativeMachine("breakout", paddle_max=raised)
    play_both(ours, theirs, 100, "paddle", strengths=True)
    assert NativeMachine("breakout").paddle_max() == 790_196


@pytest.mark.parametrize("game", ["seaquest", *PAL_GAMES])
def test_colours(game: str) -> None:
    ours, theirs = NativeMachine(game), ale_machine(game)
    odd = False
    for _ in range(40):
        ours.act(0)
        theirs.act(0)
        odd |= bool((ours.getScreen() & 1).any())
        np.testing.assert_array_equal(ours.getScreenRGB(), theirs.getScreenRGB())
        np.testing.assert_array_equal(ours.getScreenGrayscale(), theirs.getScreenGrayscale())
    assert game in PAL_GAMES or not odd


def test_palette_of_every_pixel_value() -> None:
    """Values that no game shows follow the rule of the description."""
    rgb, gray = np.empty((256, 3), np.uint8), np.empty(256, np.uint8)
    call("seed_game_palette", 1, ctypes.c_void_p(rgb.ctypes.data), ctypes.c_void_p(gray.ctypes.data))
    levels = np.floor(rgb[::2] @ np.array([0.2989, 0.5870, 0.1140]) + 0.5).astype(np.uint8)
    np.testing.assert_array_equal(gray[::2], levels)
    np.testing.assert_array_equal(rgb[1::2], np.repeat(levels[:, None], 3, axis=1))
    np.testing.assert_array_equal(gray[1::2], [*rgb[2::2, 2], 0])


# Among them the games whose state ale-py itself does not restore exactly: partial frames, counters that it corrupts.
@pytest.mark.parametrize("game", ["breakout", "qbert", "tetris", "miniature_golf", "pitfall2", "klax", "video_cube"])
def test_restored_machine_continues_exactly(game: str) -> None:
    rng = random.Random(game)
    machine = NativeMachine(game, seed=5, sticky=0.25)
    for _ in range(rng.randrange(20, 60)):
        machine.act(rng.randrange(18))
    state = machine.save()
    other = NativeMachine(game, seed=6)  # its options are its own: same stickiness, another generator
    fresh = NativeMachine(game, seed=6, sticky=0.25)
    fresh.restore(state)
    other.restore(state)
    assert not difference(fresh, machine)
    assert not difference(other, machine)
    play_both(fresh, machine, 60, game)


def test_state_without_generator_leaves_the_machines_own() -> None:
    machine = NativeMachine("pong", seed=5, sticky=0.5)
    other = NativeMachine("pong", seed=6, sticky=0.5)
    for _ in range(10):
        other.act(0)
    draws = [0, 1]
    for include_rng in (False, True):
        other.restore(machine.save(include_rng=include_rng))
        draws[include_rng] = [other.act(2 + i % 2) or other.getRAM() for i in range(60)]
    expected = [machine.act(2 + i % 2) or machine.getRAM() for i in range(60)]
    assert draws[True] == expected
    assert draws[False] != expected


def test_state_moves_between_processes(tmp_path: Path) -> None:
    machine = NativeMachine("pong", sticky=0.25)
    for _ in range(50):
        machine.act(3)
    (tmp_path / "state").write_bytes(machine.save())
    script = (
        "import sys, pathlib; from native_machine import NativeMachine; m = NativeMachine('pong', sticky=0.25);"
        f"m.restore(pathlib.Path({str(tmp_path / 'state')!r}).read_bytes()); [m.act(4) for _ in range(50)];"
        "sys.stdout.write(m.getRAM().hex())"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True)
    for _ in range(50):
        machine.act(4)
    assert result.stdout == machine.getRAM().hex(), result.stderr


def test_foreign_and_damaged_states_are_refused() -> None:
    machine, other = NativeMachine("pong"), NativeMachine("breakout")
    state = machine.save()
    before = other.save()
    flipped = bytearray(state)
    flipped[-1] ^= 1
    newer = bytearray(state)
    newer[8] += 1
    for bad, target, message in (
        (b"", machine, "not a saved state"),
        (b"x" * len(state), machine, "not a saved state"),
        (state[:-1], machine, "damaged"),
        (bytes(flipped), machine, "damaged"),
        (bytes(newer), machine, "format"),
        (state, other, "one of pong"),
    ):
        with pytest.raises(UserError, match=message):
            target.restore(bad)
    assert other.save() == before


def test_counter_generator_repeats_an_episode_whatever_came_before() -> None:
    """With it the draws of episode n depend on seed, environment and n alone."""

    def second_episode(num_acts_before: int, **options: int) -> list[bytes]:
        machine = NativeMachine("boxing", seed=1, sticky=0.5, rng=RNG_COUNTER, **options)
        start = NativeMachine("boxing", seed=1, sticky=0.5, rng=RNG_COUNTER, **options)
        for _ in range(num_acts_before):
            machine.act(5)
        start.reset_game()
        machine.reset_game()
        for i in range(128):  # RAM survives a reset, so give both runs the same
            machine.setRAM(i, start.getRAM()[i])
        return [machine.getRAM() for i in range(80) if machine.act(1 + i % 17) is not None]

    assert second_episode(0) == second_episode(25)
    assert second_episode(0) != second_episode(0, env_id=1)


def test_bad_arguments_are_clear_errors() -> None:
    for options, message in (
        ({"frame_skip": 0}, "frame_skip is 0"),
        ({"sticky": 1.5}, "repeat_action_probability is 1.5"),
        ({"sticky": float("nan")}, "repeat_action_probability"),
        ({"max_num_frames_per_episode": -1}, "max_num_frames_per_episode is -1"),
        ({"rng": 2}, "rng is 2"),
        ({"rom": b"\0" * 100}, "has 100 bytes, that of pong has 2048"),
    ):
        with pytest.raises(UserError, match=message):
            NativeMachine("pong", **options)
    machine = NativeMachine("pong")
    for wrong, message in (
        (lambda: machine.setMode(77), "pong has no mode 77"),
        (lambda: machine.setDifficulty(9), "pong has no difficulty 9"),
        (lambda: machine.setRAM(128, 0), "RAM index 128"),
        (lambda: machine.act(0, float("nan")), "finite"),
        (lambda: call("seed_game_name", 104, None), "game index 104"),
        (lambda: call("seed_game_find", b"ping", ctypes.byref(ctypes.c_int32())), "no game called 'ping'"),
        (lambda: call("seed_machine_act", None, 0, ctypes.c_float(1), None), "machine must not be NULL"),
    ):
        with pytest.raises(UserError, match=message):
            wrong()


def test_cartridge_of_another_format_is_refused() -> None:
    """A ROM of the right size whose picture is NTSC where the game's is PAL."""
    assert len(rom_bytes("alien")) == describe("air_raid")["size"]
    with pytest.raises(UserError, match="picture is NTSC, that of air_raid is PAL"):
        NativeMachine("air_raid", rom=rom_bytes("alien"))


def test_default_options_are_those_of_ale_py() -> None:
    options, ale = Options(), ale_py.ALEInterface()
    call("seed_machine_default_options", ctypes.byref(options))
    assert options.repeat_action_probability == ale.getFloat("repeat_action_probability")
    assert options.frame_skip == ale.getInt("frame_skip")
    assert options.max_num_frames_per_episode == ale.getInt("max_num_frames_per_episode")
