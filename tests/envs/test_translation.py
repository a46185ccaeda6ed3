# SPDX-License-Identifier: Apache-2.0
"""Native code from cartridges against the interpreter: the same machine, frame by frame."""

import ctypes
import os

import ale_py.roms
import numpy as np
import pytest

from seed_hpc import _native
from seed_hpc.envs import translation


def read_rom(game):
    return open(os.path.join(os.path.dirname(ale_py.roms.__file__), f"{game}.bin"), "rb").read()


class Machine:
    """One machine of seed/game.h; only what these tests look at."""

    def __init__(self, game, rom, native):
        self.library = _native.load()
        self.index = ctypes.c_int32()
        self.call("seed_game_find", game.encode(), ctypes.byref(self.index))
        path = str(translation.build(game, rom)).encode() if native else None
        self.call("seed_translation_load", self.index, path)
        options = translation._Options()
        self.call("seed_machine_default_options", ctypes.byref(options))
        self.handle = ctypes.c_void_p()
        size = ctypes.c_int64(len(rom))
        self.call("seed_machine_create", self.index, rom, size, ctypes.byref(options), ctypes.byref(self.handle))
        self.call("seed_translation_load", self.index, None)

    def call(self, name, *arguments):
        _native.check(self.library, getattr(self.library, name)(*arguments))

    def act(self, action):
        reward, over, truncated = ctypes.c_int32(), ctypes.c_int32(), ctypes.c_int32()
        self.call("seed_machine_act", self.handle, action, ctypes.c_float(1), ctypes.byref(reward))
        self.call("seed_machine_game_over", self.handle, ctypes.byref(over), ctypes.byref(truncated))
        if over.value:
            self.call("seed_machine_reset", self.handle)

    def state(self):
        """The whole machine, pictures included."""
        size = ctypes.c_int64()
        self.call("seed_machine_state_size", self.handle, ctypes.byref(size))
        state = np.zeros(size.value, np.uint8)
        self.call("seed_machine_save", self.handle, 1, state.ctypes.data_as(ctypes.c_void_p), size)
        return state.tobytes()


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEED_HPC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


# A 2 KB cartridge, one that starts at B000, two banks with code at D000 and F000, code in RAM, four banks.
@pytest.mark.parametrize("game", ["pong", "qbert", "ms_pacman", "up_n_down", "crossbow"])
def test_native_code_is_the_interpreter(game):
    rom = read_rom(game)
    native, interpreted = Machine(game, rom, native=True), Machine(game, rom, native=False)
    generator = np.random.default_rng(7)
    for frame in range(400):
        action = int(generator.integers(18))
        native.act(action)
        interpreted.act(action)
        if frame % 20 == 0:
            assert native.state() == interpreted.state(), f"{game}: frame {frame}"


def test_code_that_the_trace_missed_is_interpreted():
    """A translation made from a trace of nothing but the first instruction is slow, and still exact."""
    rom = read_rom("pong")
    trace = bytearray(len(rom))
    start = int.from_bytes(rom[-4:-2], "little") & (len(rom) - 1)
    trace[start] = 3
    source = translation._translator().translate(rom, "2K", bytes(trace))
    full = translation._translator().translate(rom, "2K", translation.trace("pong", rom))
    assert source.count("\nL") < full.count("\nL")


def test_a_cartridge_with_small_banks_is_left_to_the_interpreter():
    with pytest.raises(translation.TranslationUnavailableError, match="interpreter"):
        translation.build("montezuma_revenge", read_rom("montezuma_revenge"))


def test_a_library_that_is_no_translation_is_refused():
    library = _native.load()
    index = ctypes.c_int32()
    _native.check(library, library.seed_game_find(b"pong", ctypes.byref(index)))
    with pytest.raises(ValueError, match="no translation"):
        _native.check(library, library.seed_translation_load(index, str(_native.library_path("cpu")).encode()))


def test_no_compiler_is_one_sentence(monkeypatch):
    monkeypatch.setattr(translation.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="install g\\+\\+"):
        translation.compiler()


def test_a_cache_that_cannot_be_written_is_one_sentence(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SEED_HPC_CACHE", str(blocked))
    with pytest.raises(ValueError, match="SEED_HPC_CACHE"):
        translation.build("pong", read_rom("pong"))
