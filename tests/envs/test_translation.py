# SPDX-License-Identifier: Apache-2.0
"""Native code from cartridges against the interpreter: the same machine, frame by frame."""

import ctypes

import numpy as np
import pytest

from seed_hpc import ALEInterface, _native
from seed_hpc.envs import roms, translation
from seed_hpc.envs.games import find_game


def rom_file(game):
    return roms.rom_folder() / f"{game}.bin"


def load(game):
    machine = ALEInterface()
    machine.setInt("random_seed", 1)
    machine.loadROM(rom_file(game))
    return machine


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEED_HPC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


# A cartridge with code in RAM, one of four banks, one of slices; docs/parity.md: what was compared with ale-py.
@pytest.mark.parametrize("game", ["up_n_down", "crossbow", "montezuma_revenge"])
def test_native_code_is_the_interpreter(game, monkeypatch):
    interpreted = load(game)
    translation.build(find_game(game), rom_file(game))
    assert translation.attach(find_game(game), rom_file(game).read_bytes())
    native = load(game)
    monkeypatch.setenv("SEED_HPC_TRANSLATION", "0")
    assert not translation.attach(find_game(game), rom_file(game).read_bytes())
    generator = np.random.default_rng(7)
    for frame in range(400):
        action = int(generator.integers(18))
        for machine in (native, interpreted):
            machine.act(action)
            if machine.game_over():
                machine.reset_game()
        if frame % 20 == 0:
            same = native.cloneState(include_rng=True).equals(interpreted.cloneState(include_rng=True))
            assert same, f"{game}: frame {frame}"


def test_code_that_nobody_saw_is_left_out():
    """A trace of the first instruction alone gives what follows from it statically, and no more."""
    rom = rom_file("pong").read_bytes()
    trace = bytearray(len(rom))
    trace[int.from_bytes(rom[-4:-2], "little") & (len(rom) - 1)] = 3
    translate = translation._translator().translate
    full = translate(rom, "2K", translation.trace(find_game("pong"), rom_file("pong")))
    assert 0 < translate(rom, "2K", bytes(trace)).count("\nL") < full.count("\nL")


def test_a_library_that_is_no_translation_is_refused():
    library = _native.load()
    path = str(_native.library_path("cpu")).encode()
    with pytest.raises(ValueError, match="no translation"):
        _native.check(library, library.seed_translation_load(ctypes.c_int32(find_game("pong").index), path))


def test_a_damaged_library_in_the_cache_leaves_the_interpreter(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("SEED_HPC_CACHE", str(tmp_path))
    library = translation.library_path(rom_file("pong").read_bytes())
    library.parent.mkdir()
    library.write_bytes(b"no ELF file")
    assert not translation.attach(find_game("pong"), rom_file("pong").read_bytes())
    assert f"remove {library}" in caplog.text
    load("pong").act(0)


def test_no_compiler_is_one_sentence(monkeypatch):
    monkeypatch.setattr(translation.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="install g\\+\\+"):
        translation.compiler()


def test_a_cache_that_cannot_be_written_is_one_sentence(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SEED_HPC_CACHE", str(blocked))
    with pytest.raises(ValueError, match="SEED_HPC_CACHE"):
        translation.build(find_game("pong"), rom_file("pong"))


def test_without_a_compiler_training_goes_on_in_the_interpreter(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("SEED_HPC_CACHE", str(tmp_path))
    monkeypatch.setattr(translation.shutil, "which", lambda name: None)
    with caplog.at_level("INFO"):
        assert not translation.prepare("pong")
    assert "install g++" in caplog.text
