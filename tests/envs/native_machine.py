# SPDX-License-Identifier: Apache-2.0
"""The C ABI of one machine (seed/game.h) as a small Python class, for tests that compare it with ale-py."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import ale_py
import numpy as np

from seed_hpc import _native

RNG_ALE, RNG_COUNTER = 0, 1

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)


class Options(ctypes.Structure):
    _fields_ = (
        ("random_seed", ctypes.c_int32),
        ("repeat_action_probability", ctypes.c_float),
        ("frame_skip", ctypes.c_int32),
        ("max_num_frames_per_episode", ctypes.c_int32),
        ("rng", ctypes.c_int32),
        ("paddle_max", ctypes.c_int32),
        ("env_id", ctypes.c_int32),
    )


def call(function: str, *arguments: Any) -> None:
    """Calls a function of the library and raises its message as an error."""
    library = _native.load("cpu")
    _native.check(library, getattr(library, function)(*arguments))


def integers(function: str, handle: ctypes.c_void_p, count: int) -> list[int]:
    values = [ctypes.c_int32() for _ in range(count)]
    call(function, handle, *map(ctypes.byref, values))
    return [value.value for value in values]


def game_names() -> list[str]:
    count, name = ctypes.c_int32(), ctypes.c_char_p()
    call("seed_game_count", ctypes.byref(count))
    names = []
    for i in range(count.value):
        call("seed_game_name", i, ctypes.byref(name))
        names.append(name.value.decode())
    return names


GAMES = game_names()


def describe(game: str) -> dict[str, Any]:
    text = ctypes.c_char_p()
    call("seed_game_describe", GAMES.index(game), ctypes.byref(text))
    return json.loads(text.value)


def rom_bytes(game: str) -> bytes:
    return Path(ale_py.roms.get_rom_path(game)).read_bytes()


def ale_machine(game: str, seed: int = 1, sticky: float = 0.0, **settings: int) -> ale_py.ALEInterface:
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setFloat("repeat_action_probability", sticky)
    for name, value in settings.items():
        ale.setInt(name, value)
    ale.loadROM(ale_py.roms.get_rom_path(game))
    return ale


class NativeMachine:
    """One machine; method names are those of ale-py's ALEInterface."""

    def __init__(self, game: str, seed: int = 1, sticky: float = 0.0, rom: bytes | None = None, **options: int) -> None:
        rom = rom_bytes(game) if rom is None else rom
        values = Options(frame_skip=1)
        values.random_seed, values.repeat_action_probability = seed, sticky
        for name, value in options.items():
            setattr(values, name, value)
        self.handle = ctypes.c_void_p()
        size = ctypes.c_int64(len(rom))
        index = GAMES.index(game)
        call("seed_machine_create", index, rom, size, ctypes.byref(values), ctypes.byref(self.handle))

    def __del__(self) -> None:
        if self.handle:
            call("seed_machine_destroy", self.handle)

    def act(self, action: int, strength: float = 1.0) -> int:
        reward = ctypes.c_int32()
        call("seed_machine_act", self.handle, action, ctypes.c_float(strength), ctypes.byref(reward))
        return reward.value

    def reset_game(self) -> None:
        call("seed_machine_reset", self.handle)

    def getRAM(self) -> bytes:
        ram = (ctypes.c_uint8 * 128)()
        call("seed_machine_ram", self.handle, ram)
        return bytes(ram)

    def setRAM(self, index: int, value: int) -> None:
        call("seed_machine_set_ram", self.handle, index, ctypes.c_uint8(value))

    def getScreen(self) -> np.ndarray:
        pixels, height, width = ctypes.c_void_p(), ctypes.c_int32(), ctypes.c_int32()
        call("seed_machine_screen", self.handle, *map(ctypes.byref, (pixels, height, width)))
        picture = (ctypes.c_uint8 * (height.value * width.value)).from_address(pixels.value)
        return np.frombuffer(bytes(picture), np.uint8).reshape(height.value, width.value)

    def getScreenRGB(self) -> np.ndarray:
        rgb = np.empty((*self.getScreen().shape, 3), np.uint8)
        call("seed_machine_screen_rgb", self.handle, ctypes.c_void_p(rgb.ctypes.data))
        return rgb

    def getScreenGrayscale(self) -> np.ndarray:
        gray = np.empty(self.getScreen().shape, np.uint8)
        call("seed_machine_screen_grayscale", self.handle, ctypes.c_void_p(gray.ctypes.data))
        return gray

    def lives(self) -> int:
        return integers("seed_machine_lives", self.handle, 1)[0]

    def game_over(self) -> bool:
        return any(integers("seed_machine_game_over", self.handle, 2))

    def getFrameNumber(self) -> int:
        return integers("seed_machine_frame_numbers", self.handle, 2)[0]

    def getEpisodeFrameNumber(self) -> int:
        return integers("seed_machine_frame_numbers", self.handle, 2)[1]

    def paddle_max(self) -> int:
        return integers("seed_machine_paddle_max", self.handle, 1)[0]

    def setMode(self, mode: int) -> None:
        call("seed_machine_set_mode", self.handle, mode)

    def setDifficulty(self, difficulty: int) -> None:
        call("seed_machine_set_difficulty", self.handle, difficulty)

    def save(self, *, include_rng: bool = True) -> bytes:
        size = ctypes.c_int64()
        call("seed_machine_state_size", self.handle, ctypes.byref(size))
        state = (ctypes.c_uint8 * size.value)()
        call("seed_machine_save", self.handle, int(include_rng), state, size)
        return bytes(state)

    def restore(self, state: bytes) -> None:
        call("seed_machine_restore", self.handle, state, ctypes.c_int64(len(state)))


Machine = NativeMachine | ale_py.ALEInterface


def difference(ours: NativeMachine, theirs: Machine) -> str:
    """The first thing that differs between two machines, or an empty string."""
    for name in ("lives", "game_over", "getFrameNumber", "getEpisodeFrameNumber"):
        a, b = getattr(ours, name)(), getattr(theirs, name)()
        if a != b:
            return f"{name}() is {a}, expected {b}"
    a, b = ours.getRAM(), bytes(theirs.getRAM())
    if a != b:
        i = next(i for i in range(128) if a[i] != b[i])
        return f"RAM {0x80 + i:02X} is {a[i]:02X}, expected {b[i]:02X}"
    ours_screen, theirs_screen = ours.getScreen(), theirs.getScreen()
    if not np.array_equal(ours_screen, theirs_screen):
        y, x = np.argwhere(ours_screen != theirs_screen)[0]
        return f"pixel x={x} y={y} is {ours_screen[y, x]}, expected {theirs_screen[y, x]}"
    return ""
