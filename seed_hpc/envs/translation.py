# SPDX-License-Identifier: Apache-2.0
"""Native code made from cartridges: traced, translated to C++, compiled once, cached by content, loaded on demand.

    ROM image -> trace (which bytes are code) -> C++ (cuda/translator) -> compiler -> library in the cache -> loaded

Nothing here is needed to run: a game without a translation is interpreted, with the same result. A library in the cache
is named by the ROM, the sources it was made from, the compiler's options and the instruction set, so a stale one is
never found.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np

from seed_hpc import _native
from seed_hpc._native import instruction_set as instruction_set
from seed_hpc.envs import roms
from seed_hpc.envs.games import GameInfo, find_game
from seed_hpc.envs.roms import read_rom_file
from seed_hpc.errors import MissingDependencyError, UserError

log = logging.getLogger(__name__)

# Frames of random play that find out which bytes are code; what they miss is interpreted.
TRACE_FRAMES = 6000

_FLAGS = ["-std=gnu++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-w"]


def cache_folder() -> Path:
    """Returns where libraries are kept: SEED_HPC_CACHE, or `seed-hpc` in the user's cache folder."""
    if folder := os.environ.get("SEED_HPC_CACHE"):
        return Path(folder) / "translations"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "seed-hpc" / "translations"


def source_folder() -> Path:
    """Returns the folder of the portable core's headers.

    Raises:
        MissingDependencyError: They are not installed.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package.parent / "cuda", package / "_cuda"):
        if (folder / "translator" / "translate.py").is_file():
            return folder
    raise MissingDependencyError("the core's headers (folder cuda/) were not found: install seed-hpc from its sources")


def compiler() -> str:
    """Returns the C++ compiler: $CXX, g++ or clang++.

    Raises:
        MissingDependencyError: There is none.
    """
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and (path := shutil.which(name)):
            return path
    raise MissingDependencyError(
        "no C++ compiler was found: install g++, or run without translation (same results, slower)"
    )


@functools.cache
def _source_digest() -> str:
    folder = source_folder()
    digest = hashlib.sha256()
    for part in ("machine", "translator"):
        for path in sorted((folder / part).glob("*")):
            if path.suffix in (".h", ".py"):
                digest.update(path.read_bytes())
    digest.update((folder / "portability.h").read_bytes())
    return digest.hexdigest()


def library_path(rom: bytes) -> Path:
    """Returns where the library of a ROM image is or would be in the cache."""
    key = hashlib.sha256()
    key.update(hashlib.sha256(rom).digest())
    key.update("\0".join([_source_digest(), instruction_set(), *_FLAGS]).encode())
    return cache_folder() / f"rom_{key.hexdigest()[:24]}.so"


def _translator() -> ModuleType:
    """Imports cuda/translator/translate.py, which is a stand-alone script."""
    folder = str(source_folder() / "translator")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("translate")


def trace(game: GameInfo, path: Path, frames: int = TRACE_FRAMES) -> bytes:
    """Plays random frames, in up to six modes in turn, and returns the trace of a ROM image (seed/translation.h).

    Args:
        game: The game.
        path: The file of its ROM image, `<game>.bin`.
        frames: Emulated frames in all.
    """
    from seed_hpc.envs.interface import ALEInterface

    noted = np.zeros(game.size, np.uint8)
    generator = np.random.default_rng(0)
    machine = ALEInterface()
    machine.setInt("random_seed", 0)
    machine.loadROM(path)
    visited = [game.modes[i] for i in np.linspace(0, len(game.modes) - 1, min(len(game.modes), 6)).astype(int)]
    with machine.tracing(noted):
        for mode in visited:
            machine.setMode(mode)
            machine.reset_game()
            for _ in range(frames // len(visited)):
                machine.act(int(generator.choice(game.minimal_actions)))
                if machine.game_over():
                    machine.reset_game()
    return noted.tobytes()


def build(game: GameInfo, path: Path) -> Path:
    """Returns the library of a game's ROM image, made now unless it is in the cache.

    Args:
        game: The game.
        path: The file of its ROM image, `<game>.bin`.

    Raises:
        MissingDependencyError: No compiler, or no headers.
        UserError: The image is not the game's, the compiler failed or the cache cannot be written.
    """
    rom = read_rom_file(game, path)
    library = library_path(rom)
    if library.is_file():
        return library
    translator = _translator()
    source = translator.translate(rom, game.cartridge, trace(game, path))
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            unit, output = Path(scratch) / f"{game.name}.cpp", Path(scratch) / "library.so"
            unit.write_text(source)
            _compile(unit, output)
            output.replace(library)  # atomic: a reader sees the whole library or none
    except OSError as error:
        raise UserError(
            f"the cache folder {library.parent} cannot be written ({error.strerror}): name another in SEED_HPC_CACHE"
        ) from error
    log.info("translated %s into %s", game.name, library)
    return library


def _compile(unit: Path, output: Path) -> None:
    folder = source_folder()
    march = [f"-march={instruction_set()}"] if instruction_set() else []
    include = [f"-I{folder}", f"-I{folder / 'include'}"]
    command = [compiler(), *_FLAGS, *march, *include, "-o", str(output), str(unit)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        complaint = next((line for line in result.stderr.splitlines() if "error" in line), "no message")
        raise UserError(f"the native code of {unit.stem} was not made, the compiler failed: {complaint}")


def prepare(name: str, rom_folder: str | os.PathLike[str] | None = None) -> bool:
    """Makes the native code of a game if that is possible here; otherwise says why not and leaves the interpreter.

    Args:
        name: The game's name.
        rom_folder: See `roms.rom_folder`.

    Returns:
        Whether there is native code now.

    Raises:
        UserError: The game is unknown or its ROM image is missing.
    """
    game = find_game(name)
    path = roms.rom_folder(rom_folder) / f"{game.name}.bin"
    read_rom_file(game, path)
    if os.environ.get("SEED_HPC_TRANSLATION") == "0":
        return False
    try:
        build(game, path)
    except UserError as error:
        log.info("%s runs in the interpreter (same results, slower): %s", game.name, error)
        return False
    return True


def attach(game: GameInfo, rom: bytes) -> bool:
    """Makes machines of `game` that are created from now on run native code when its library is in the cache.

    SEED_HPC_TRANSLATION=0 turns translations off; what is emulated is the same either way.

    Args:
        game: The game.
        rom: Its ROM image.

    Returns:
        Whether native code is used.
    """
    native = _native.load()
    library = None if os.environ.get("SEED_HPC_TRANSLATION") == "0" else library_path(rom)
    if library is None or not library.is_file():
        _native.check(native, native.seed_translation_load(game.index, None))
        return False
    try:
        _native.check(native, native.seed_translation_load(game.index, os.fsencode(library)))
    except UserError as error:
        _native.check(native, native.seed_translation_load(game.index, None))
        log.warning("%s runs in the interpreter (same results, slower): %s; remove %s", game.name, error, library)
        return False
    return True
